// The rules of limits also exist twice: in src/rules/limit.cpp and in limit.lua. Both run
// the same random histories and have to answer the same after every step.
//
// Some things never happen in a history, because only the script handles them: no claim
// asks again or withdraws after it was admitted, and the clock does not step back.
//
// DLOCK_TEST_STEPS and DLOCK_TEST_SEED are as in rules_against_lua_test.cpp.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/limit.hpp"
#include "store/redis/node.hpp"
#include "store/redis/records.hpp"
#include "store/redis/script_calls.hpp"
#include "tests/contract/clocked_scripts.hpp"
#include "tests/contract/random_steps.hpp"

namespace dlock::against {
namespace {

constexpr Rate rates[] = {{1, milliseconds(800)},
                          {3, milliseconds(800)},
                          {2, milliseconds(3000)},
                          {5, milliseconds(100)}};

std::string words_of(const RateAnswer& answer) {
  const auto numbers = [](auto first, milliseconds second) {
    return std::to_string(first) + " " + std::to_string(second.count());
  };
  if (const auto* admitted = std::get_if<Admitted>(&answer)) {
    return "admitted " + numbers(admitted->remaining, admitted->next_in);
  }
  if (const auto* later = std::get_if<NotAdmitted>(&answer)) {
    return "later " + numbers(later->remaining, later->next_in) +
           (later->has_turn ? " in line" : "");
  }
  const auto& differs = std::get<RateDiffers>(answer);
  return "differs " + numbers(differs.in_use.most, differs.in_use.period);
}

// The ids of the two scripts of limits.
struct LimitScripts {
  std::string admit, withdraw;
};

class LimitHistory {
 public:
  LimitHistory(const Rate& rate, unsigned seed, const LimitScripts& scripts)
      : rate_(rate),
        dice_(seed),
        scripts_(scripts),
        seed_(seed),
        trail_(seed),
        claims_(6) {
    for (auto& claim : claims_) replace(claim);
  }

  redis::Command begin_step() {
    constexpr unsigned passes[] = {0, 0, 0, 1, 20, 50, 100, 250, 799, 800, 1000, 2500};
    now_ += milliseconds(dice_.pick(passes));
    own_ = dice_.below(static_cast<unsigned>(claims_.size()));
    auto& claim = claims_[own_];
    withdraws_ = dice_.one_in(12);
    const auto patience = std::to_string(claim.patience.count());
    const auto who = text_of(claim.token);
    trail_.add(std::to_string(now_.count() / 1000) + " ms: " + who.substr(0, 4) +
               (withdraws_ ? " withdraws" : " asks, patience " + patience));
    const auto key = redis::key_of(claim.limit);
    if (withdraws_) return ClockedServer::call(scripts_.withdraw, key, now_, {who});
    return ClockedServer::call(scripts_.admit, key, now_,
                               {who, std::to_string(claim.rate.most),
                                std::to_string(claim.rate.period.count()), patience});
  }

  // The difference between the sides; empty if there is none.
  std::string end_step(const redis::Reply& reply) {
    auto& claim = claims_[own_];
    if (withdraws_) {
      rules::withdraw(state_, claim.token);
      replace(claim);
      return "";
    }
    const auto ours = rules::admit(state_, claim, Clock::time_point(now_));
    if (std::holds_alternative<Admitted>(ours)) replace(claim);
    const bool is_answer = !reply.is_error() && !reply.elements.empty();
    const auto theirs =
        is_answer ? redis::rate_answer_from(reply.elements[0]) : std::nullopt;
    const auto script = theirs ? words_of(*theirs) : "nothing: " + reply.text;
    if (words_of(ours) == script) return "";
    return trail_.report("the rules answer: " + words_of(ours) +
                         "\nthe script: " + script);
  }

 private:
  void replace(RateClaim& claim) {
    constexpr unsigned patiences[] = {0, 0, 300, 1000, 5000, 60'000};
    claim.limit = {"dlock", "limit" + std::to_string(seed_)};
    claim.token = rules::token_of(++last_number_);
    claim.rate = dice_.one_in(40) ? Rate{4, milliseconds(500)} : rate_;
    claim.patience = milliseconds(dice_.pick(patiences));
  }

  Rate rate_;
  Dice dice_;
  const LimitScripts& scripts_;
  unsigned seed_;
  Trail trail_;
  std::vector<RateClaim> claims_;
  rules::LimitState state_;
  WallTime now_{std::chrono::seconds(1'700'000'000)};
  Session last_number_ = 0;
  std::size_t own_ = 0;
  bool withdraws_ = false;
};

class LimitAgainstLua : public ::testing::Test {
 protected:
  // The first difference in this many steps; empty if there is none.
  std::string first_difference(const Rate& rate, unsigned steps,
                               const Replacement& replaced) {
    const LimitScripts scripts{server_.load(redis::limit_script.text, replaced),
                               server_.load(redis::withdraw_script.text)};
    std::vector<LimitHistory> histories;
    for (unsigned i = 0; i < at_once; ++i) {
      histories.emplace_back(rate, number_in("DLOCK_TEST_SEED", 1) + i, scripts);
    }
    server_.exchange({{"FLUSHALL"}});
    return against::first_difference(server_, histories, steps / at_once,
                                     [](auto& one) { return one.begin_step(); });
  }

  ClockedServer server_;
};

TEST_F(LimitAgainstLua, both_sides_answer_the_same_after_every_step) {
  const auto steps = number_in("DLOCK_TEST_STEPS", 6'400);
  for (const auto& rate : rates) {
    const auto difference = first_difference(rate, steps, {});

    EXPECT_TRUE(difference.empty()) << difference;
  }
}

TEST_F(LimitAgainstLua, a_bug_in_the_script_is_found) {
  constexpr Replacement bugs[] = {
      {"if taken + place < most then", "if taken < most then"},
      {"tonumber(first[2]) + TURN > now", "tonumber(first[2]) + 2 * TURN > now"},
      {"turn - now <= patience", "turn - now < patience - 100000"}};
  for (const auto& bug : bugs) {
    EXPECT_FALSE(first_difference(rates[1], 6'400, bug).empty()) << bug.find;
  }
}

}  // namespace
}  // namespace dlock::against
