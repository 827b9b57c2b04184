// The states of locks as JSON.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "lock/history.hpp"
#include "record/states.hpp"
#include "rules/granting.hpp"
#include "rules/keeping.hpp"
#include "rules/queue.hpp"

namespace dlock::record {
namespace {

using namespace std::chrono_literals;
using rules::State;

constexpr std::chrono::seconds some_time(1'700'000'000);

// The claims of a few clients, in a random order, where the clock ends leases.
class RandomStates {
 public:
  explicit RandomStates(unsigned seed) : random_(seed) {}

  const State& next() {
    pass(below(4) == 0 ? 40'000ms : milliseconds(below(3000)));
    const auto who = below(8);
    const rules::ClockLiveness liveness(now_);
    rules::Consequences then;
    const rules::Step step{state_, now_, liveness, then};
    rules::limit_to_lengths(state_, now_);
    const auto claim = claim_of(who);
    const auto own = rules::holder_of(state_, claim.token);
    if (own == state_.holders.end() || below(4) == 0) {
      const auto party = party_of(claim, who);
      rules::ask(step, {claim, party, queue(), rules::place_lasts});
    } else if (below(3) == 0) {
      rules::break_leases(step, {own->fence}, {"ann", "here", false, below(2) == 0});
    } else {
      const auto granted = *own;
      rules::release_lease(step, claim, &granted, end());
    }
    for (const auto& run : then.vanished) rules::record_past_run(state_, run);
    return state_;
  }

 private:
  unsigned below(unsigned most) { return static_cast<unsigned>(random_() % most); }
  void pass(milliseconds span) {
    now_.wall += span;
    now_.boot += span;
  }
  Queue queue() { return below(5) == 0 ? Queue::refuse : Queue::join; }

  Claim claim_of(unsigned who) {
    Claim claim;
    claim.lock = {"dlock", "job"};
    claim.token.bytes.fill(static_cast<std::uint8_t>(who + 1));
    claim.slots = 2;
    claim.label = who == 1 ? "caf\u00e9 \"x\"\n" : "";
    claim.command = {"run", "\xff not UTF-8"};
    claim.attached = who != 2;
    claim.min_hold = who == 3 ? 60'000ms : 0ms;
    if (who == 4) claim.dedupe = Dedupe{10'000ms, true, false};
    if (who == 5) claim.dedupe = Dedupe{0ms, false, true};
    claim.supersedes = who >= 5 && who <= 6;
    claim.replaces = who == 7;
    claim.on_behalf_of = who == 2 ? 4711 : 0;
    return claim;
  }

  static rules::Party party_of(const Claim& claim, unsigned who) {
    rules::Party party;
    party.token = claim.token;
    party.session = rules::session_of(claim.token);
    party.pid = static_cast<std::int32_t>(who + 100);
    party.user = "u";
    party.host = "h";
    return party;
  }

  std::optional<RunEnd> end() {
    RunEnd end;
    end.exit_code = static_cast<int>(below(3));
    end.outcome = "ran";
    end.duration = milliseconds(below(5000));
    end.is_shared = below(2) == 0;
    end.leaves_lease = below(6) == 0;
    if (below(5) == 0) return std::nullopt;
    if (below(6) == 0) end.lost = Loss::unconfirmed, end.outcome = "lost";
    return end;
  }

  std::mt19937 random_;
  rules::Moment now_{Clock::time_point(some_time), some_time};
  State state_;
};

// What is kept in separate columns, and words that are not UTF-8.
State as_kept(State state) {
  state.refused = 0;
  state.runs.clear();
  for (auto& holder : state.holders) {
    holder.argv = {"run", "\ufffd not UTF-8"};
    holder.after = {};  // for its client only
  }
  return state;
}

TEST(StateJson, reads_what_it_has_written) {
  std::size_t holders = 0;
  std::size_t waiters = 0;
  std::size_t answered = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    RandomStates random(seed);
    for (int step = 0; step < 200; ++step) {
      const auto& state = random.next();
      holders += state.holders.size();
      waiters += state.waiters.size();
      answered += state.answered.size();

      const auto text = state_json(state);
      const auto again = state_from_json(text.value());

      ASSERT_TRUE(again) << *text;
      ASSERT_EQ(*again, as_kept(state)) << *text;
      ASSERT_EQ(runs_from_json(runs_json(state.runs)), state.runs);
    }
  }
  EXPECT_GT(holders, 1000u);
  EXPECT_GT(waiters, 1000u);
  EXPECT_GT(answered, 20u);
}

TEST(StateJson, is_ascii) {
  State state;
  auto& holder = state.holders.emplace_back();
  holder.label = "caf\u00e9 \U0001f512 \xff";
  holder.lives_until = Clock::time_point(1s);

  const auto text = state_json(state).value();

  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~';
  })) << text;
  EXPECT_EQ(state_from_json(text)->holders.at(0).label, "caf\u00e9 \U0001f512 \ufffd");
}

TEST(StateJson, ignores_what_it_does_not_know) {
  const auto state = state_from_json(
      R"({"later":{"fence":{"fence":[1,-2,3.5,null,true,"x"]}},"fence":7,"slots":2,)"
      R"("used":0,"waiters":[{"token":"01010101010101010101010101010101","new":[[]],)"
      R"("queued_at":5,"lives_until":9}]})");

  ASSERT_TRUE(state);
  EXPECT_EQ(state->last_fence, Fence{7});
  ASSERT_EQ(state->waiters.size(), 1u);
  EXPECT_EQ(state->waiters[0].lives_until, Clock::time_point(9us));
  EXPECT_EQ(state->waiters[0].party.session,
            rules::session_of(state->waiters[0].party.token));
}

TEST(StateJson, refuses_what_it_has_not_written) {
  for (const auto* text : {"",
                           "x",
                           "7",
                           "null",
                           "[]",
                           "{",
                           "{}}",
                           "{} {}",
                           R"({"fence":-1})",
                           R"({"fence":1.5})",
                           R"({"fence":"1"})",
                           R"({"fence":null})",
                           R"({"fence":[1]})",
                           R"({"fence":{"fence":1}})",
                           R"({"fence":9007199254740993})",
                           R"({"fence":18446744073709551616})",
                           R"({"slots":0})",
                           R"({"slots":4294967296})",
                           R"({"holders":{}})",
                           R"({"holders":[1]})",
                           R"({"holders":[[]]})",
                           R"({"holders":[{"token":"0"}]})",
                           R"({"holders":[{"mode":"both"}]})",
                           R"({"holders":[{"ended":1}]})",
                           R"({"holders":[{"pid":2147483648}]})",
                           R"({"holders":[{"command":"x"}]})",
                           R"({"holders":[{"command":[1]}]})",
                           R"({"waiters":[{"dedupe":[]}]})",
                           R"({"last_run":true})",
                           "{\"fence\":1,}",
                           "{\"\xff\":1}"}) {
    EXPECT_FALSE(state_from_json(text)) << text;
  }
  EXPECT_FALSE(state_from_json(std::string(20, '[')));
  EXPECT_FALSE(
      state_from_json("{\"a\":" + std::string(20, '[') + std::string(20, ']') + "}"));
  EXPECT_FALSE(state_from_json("{\"a\":\"" + std::string(2u << 20, 'x') + "\"}"));
  EXPECT_FALSE(runs_from_json("{}"));
  EXPECT_FALSE(runs_from_json(R"([{"started":-1}])"));
}

State with_waiters(std::size_t count) {
  State state;
  auto& holder = state.holders.emplace_back();
  holder.lives_until = Clock::time_point(some_time);
  for (std::size_t i = 0; i < count; ++i) {
    auto& waiter = state.waiters.emplace_back();
    waiter.party.token.bytes.fill(static_cast<std::uint8_t>(i));
    waiter.party.host = "a-host.example.com";
    waiter.party.user = "deploy";
    waiter.party.pid = 12345;
    waiter.since = some_time;
    waiter.queued_at = waiter.lives_until.emplace(some_time);
  }
  return state;
}

TEST(StateJson, empty_elements_take_no_more_memory_than_their_bytes_allow) {
  const auto peak = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;  // KiB
  };
  std::string elements;
  for (int i = 0; i < 340'000; ++i) elements += i == 0 ? "{}" : ",{}";
  const auto before = peak();

  for (const std::string list : {"waiters", "holders", "answered"}) {
    const auto text = R"({"fence":1,"slots":1,")" + list + "\":[" + elements + "]}";
    EXPECT_FALSE(state_from_json(text)) << list;
  }
  EXPECT_FALSE(runs_from_json("[" + elements + "]"));

#ifdef DLOCK_LOOKS_FOR_LEAKS
  constexpr long kept = 256 * 1024;  // what a sanitizer does not give back at once
#else
  constexpr long kept = 0;
#endif
  EXPECT_LT(peak() - before, kept + 80 * 1024);
}

TEST(StateJson, leaves_out_commands_that_are_too_long_for_all_holders) {
  State state;
  for (int i = 0; i < 300; ++i) {
    auto& holder = state.holders.emplace_back();
    holder.lives_until = Clock::time_point(some_time);
    holder.argv = {std::string(4000, 'x')};
  }

  const auto text = state_json(state);

  ASSERT_TRUE(text);
  EXPECT_LT(text->size(), longest_state);
  EXPECT_EQ(state_from_json(*text)->holders.size(), 300u);
}

TEST(StateJson, keeps_a_thousand_waiters_within_its_bounds) {
  const auto state = with_waiters(1000);

  const auto text = state_json(state);

  ASSERT_TRUE(text);
  EXPECT_LT(text->size(), longest_state / 3);
  EXPECT_EQ(state_from_json(*text)->waiters.size(), 1000u);
}

TEST(StateJson, does_not_write_what_nobody_could_read) {
  State state;
  state.holders.resize(20'000);

  EXPECT_FALSE(state_json(state));
}

}  // namespace
}  // namespace dlock::record
