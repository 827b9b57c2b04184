// What every store promises about limits (Store::admit), and waiting for a turn.

#include <gtest/gtest.h>
#include <unistd.h>

#include <list>
#include <string>

#include "lease/holding.hpp"
#include "store/local/record_file.hpp"
#include "store/open.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/faulty_store.hpp"
#include "tests/contract/worlds.hpp"
#include "util/bits.hpp"

namespace dlock {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// Long enough that even on a busy machine all requests of a test fall into one period.
constexpr milliseconds period(500);

// A contender for a limit.
struct Guest {
  Guest(asio::io_context& at, World& world, const Rate& rate, const std::string& name,
        const std::string& name_space)
      : context(at), wakeup(at), store(world.connect(at, usual_timeout)) {
    claim.limit = {name_space, name};
    claim.token.bytes = random_bytes();
    claim.rate = rate;
  }

  RateAnswer ask(milliseconds patience = milliseconds(0)) {
    claim.patience = patience;
    return result_of(context, rates_of(*store).admit(claim, wakeup));
  }
  bool is_admitted() { return std::holds_alternative<Admitted>(ask()); }
  NotAdmitted waits() { return std::get<NotAdmitted>(ask(hours(1))); }
  void withdraw() { result_of(context, rates_of(*store).withdraw(claim, wakeup)); }

  asio::io_context& context;
  Wakeup wakeup;
  std::unique_ptr<Store> store;
  RateClaim claim;
};

class LimitContract : public ::testing::TestWithParam<Kind> {
 protected:
  Guest& guest(const Rate& rate = {2, hours(1)}, const std::string& name = "api",
               const std::string& name_space = "dlock") {
    return guests_.emplace_back(context_, *world_, rate, name, name_space);
  }
  void fill(const Rate& rate) {
    for (unsigned i = 0; i < rate.most; ++i) ASSERT_TRUE(guest(rate).is_admitted());
  }
  void sleep_for(milliseconds span) {
    const auto until = Clock::now() + span;
    dlock::eventually(context_, [&] { return Clock::now() >= until; });
  }
  RateAnswer wait(Guest& guest, milliseconds patience) {
    TurnPatience limit;
    limit.until = later(Clock::now(), patience);
    return result_of(context_, await_admission(rates_of(*guest.store), guest.claim, limit,
                                               guest.wakeup));
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Guest> guests_;
};

TEST_P(LimitContract, admits_at_most_the_limit) {
  EXPECT_EQ(std::get<Admitted>(guest().ask()).remaining, 1u);
  EXPECT_EQ(std::get<Admitted>(guest().ask()).remaining, 0u);

  const auto refused = std::get<NotAdmitted>(guest().ask());

  EXPECT_EQ(refused.remaining, 0u);
  EXPECT_FALSE(refused.has_turn);
  EXPECT_GT(refused.next_in, hours(1) - seconds(60));
  EXPECT_LE(refused.next_in, hours(1));
}

TEST_P(LimitContract, admits_again_when_a_period_is_over) {
  const Rate rate{2, period};
  fill(rate);
  auto& next = guest(rate);
  const auto refused = std::get<NotAdmitted>(next.ask());

  sleep_for(refused.next_in);

  EXPECT_TRUE(next.is_admitted());
}

TEST_P(LimitContract, limits_of_different_names_and_namespaces_are_independent) {
  const Rate one{1, hours(1)};
  EXPECT_TRUE(guest(one).is_admitted());
  EXPECT_TRUE(guest(one, "other").is_admitted());
  EXPECT_TRUE(guest(one, "api", "elsewhere").is_admitted());
  EXPECT_TRUE(guest(one, "{api}:limit").is_admitted());
  EXPECT_FALSE(guest(one).is_admitted());
}

TEST_P(LimitContract, the_longest_names_can_be_used) {
  const std::string longest(255, 'x');
  const Rate one{1, hours(1)};

  EXPECT_TRUE(guest(one, longest, longest).is_admitted());
  EXPECT_FALSE(guest(one, longest, longest).is_admitted());
}

TEST_P(LimitContract, a_claim_is_admitted_once_however_often_it_asks) {
  auto& first = guest();
  EXPECT_TRUE(first.is_admitted());
  EXPECT_TRUE(first.is_admitted());

  EXPECT_TRUE(guest().is_admitted());
  EXPECT_FALSE(guest().is_admitted());
}

TEST_P(LimitContract, a_repeated_claim_is_admitted_even_if_no_other_is) {
  auto& last = guest({1, hours(1)});
  EXPECT_TRUE(last.is_admitted());

  EXPECT_TRUE(last.is_admitted());
  EXPECT_FALSE(guest({1, hours(1)}).is_admitted());
}

TEST_P(LimitContract, waiters_get_turns_in_order) {
  fill({2, hours(1)});

  const auto first = guest().waits();
  const auto second = guest().waits();
  const auto third = std::get<NotAdmitted>(guest().ask(hours(3)));

  EXPECT_TRUE(first.has_turn);
  EXPECT_LE(first.next_in, hours(1));
  EXPECT_LE(second.next_in, hours(1));
  EXPECT_TRUE(third.has_turn);
  EXPECT_GT(third.next_in, hours(2) - seconds(60));
  EXPECT_LE(third.next_in, hours(2));
}

TEST_P(LimitContract, a_turn_after_the_end_of_the_wait_is_not_given) {
  fill({2, hours(1)});
  EXPECT_FALSE(std::get<NotAdmitted>(guest().ask(seconds(60))).has_turn);

  // It has no place in the queue either.
  guest().waits();
  EXPECT_LE(guest().waits().next_in, hours(1));
}

TEST_P(LimitContract, no_claim_overtakes_the_queue) {
  const Rate rate{2, period};
  fill(rate);
  auto& first = guest(rate);
  first.waits();
  auto& second = guest(rate);
  const auto turn = second.waits();
  auto& newcomer = guest(rate);

  sleep_for(turn.next_in);

  EXPECT_FALSE(newcomer.is_admitted());
  EXPECT_TRUE(first.is_admitted());
  EXPECT_FALSE(newcomer.is_admitted());
  EXPECT_TRUE(second.is_admitted());
}

TEST_P(LimitContract, a_turn_that_is_not_taken_within_a_second_lapses) {
  const Rate rate{1, period};
  fill(rate);
  auto& late = guest(rate);
  const auto turn = late.waits();

  sleep_for(turn.next_in);
  EXPECT_FALSE(guest(rate).is_admitted());
  sleep_for(turn_holds);
  const auto taken_at = Clock::now();
  EXPECT_TRUE(guest(rate).is_admitted());

  // On a machine that stops for a whole period, the next turn is free again.
  EXPECT_TRUE(!late.is_admitted() || Clock::now() - taken_at >= period);
}

TEST_P(LimitContract,
       a_waiter_that_misses_its_turn_costs_those_behind_it_only_that_turn) {
  const Rate rate{2, period};
  fill(rate);
  for (int dead = 0; dead < 3; ++dead) guest(rate).waits();
  auto& fourth = guest(rate);
  fourth.waits();
  auto& fifth = guest(rate);
  const auto turn = fifth.waits();
  EXPECT_LE(turn.next_in, 3 * period);

  sleep_for(turn.next_in);

  EXPECT_FALSE(guest(rate).is_admitted());
  EXPECT_TRUE(fifth.is_admitted());
  EXPECT_TRUE(fourth.is_admitted());
}

TEST_P(LimitContract, a_place_that_is_given_up_is_free) {
  const Rate rate{1, period};
  fill(rate);
  auto& first = guest(rate);
  const auto turn = first.waits();

  first.withdraw();
  sleep_for(turn.next_in);

  EXPECT_TRUE(guest(rate).is_admitted());
}

TEST_P(LimitContract, a_claim_without_a_place_can_withdraw) {
  guest().withdraw();
  EXPECT_TRUE(guest().is_admitted());
}

TEST_P(LimitContract, another_rate_is_refused_with_the_one_in_use) {
  fill({2, hours(1)});

  const auto other_number = guest({3, hours(1)}).ask();
  const auto other_period = guest({2, hours(2)}).ask(hours(9));

  EXPECT_EQ(std::get<RateDiffers>(other_number).in_use, (Rate{2, hours(1)}));
  EXPECT_EQ(std::get<RateDiffers>(other_period).in_use, (Rate{2, hours(1)}));
}

TEST_P(LimitContract, another_rate_is_fine_once_the_last_one_is_over) {
  fill({1, milliseconds(50)});
  sleep_for(milliseconds(60));

  EXPECT_TRUE(guest({3, hours(1)}).is_admitted());
  EXPECT_TRUE(guest({3, hours(1)}).is_admitted());
}

TEST_P(LimitContract, ten_thousand_can_be_admitted) {
  const Rate rate{10'000, hours(1)};
  auto& many = guest(rate);
  for (int i = 0; i < 10'000; ++i) {
    many.claim.token.bytes = random_bytes();
    ASSERT_TRUE(many.is_admitted()) << i;
  }

  EXPECT_FALSE(guest(rate).is_admitted());
}

TEST_P(LimitContract, a_limit_is_not_a_lock) {
  auto& reader = guest();
  EXPECT_TRUE(reader.is_admitted());

  const auto locks = result_of(
      context_, reader.store->inspector().list(
                    "dlock", [](const std::string&) { return true; }, reader.wakeup));
  const auto info = result_of(
      context_, reader.store->inspector().inspect({"dlock", "api"}, reader.wakeup));
  Claim claim;
  claim.lock = {"dlock", "api"};
  claim.token.bytes = random_bytes();
  const auto claimant = reader.store->claimant(claim);
  const auto grant = result_of(context_, claimant->ask(Queue::stay_out, reader.wakeup));

  EXPECT_TRUE(locks.empty());
  EXPECT_TRUE(info.holders.empty());
  EXPECT_TRUE(std::holds_alternative<Grant>(grant));
  EXPECT_TRUE(guest().is_admitted());
}

TEST_P(LimitContract, a_store_that_does_not_answer_is_a_failure) {
  auto& slow = guest();
  slow.store = world_->connect(context_, GetParam().brief_timeout);
  const auto silence = world_->hold_up();

  EXPECT_THROW(slow.ask(), Failure);
}

TEST_P(LimitContract, a_waiter_is_admitted_at_its_turn) {
  const Rate rate{1, period};
  fill(rate);
  const auto start = Clock::now();

  EXPECT_TRUE(std::holds_alternative<Admitted>(wait(guest(rate), seconds(5))));

  EXPECT_GE(Clock::now() - start, period - milliseconds(50));
}

TEST_P(LimitContract, a_claim_that_would_wait_too_long_is_refused_at_once) {
  fill({2, hours(1)});
  const auto start = Clock::now();

  EXPECT_TRUE(std::holds_alternative<NotAdmitted>(wait(guest(), seconds(30))));

  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_P(LimitContract, an_interrupted_waiter_leaves_the_queue) {
  const Rate rate{1, period};
  fill(rate);
  auto& first = guest(rate);
  TurnPatience forever;
  forever.until = Clock::time_point::max();
  bool has_turn = false;
  forever.waiting = [&](milliseconds) {
    has_turn = true;
    return milliseconds::max();
  };
  Task<RateAnswer> waiting(context_, await_admission(rates_of(*first.store), first.claim,
                                                     forever, first.wakeup));
  ASSERT_TRUE(dlock::eventually(context_, [&] { return has_turn; }));

  first.wakeup.give_up(true);

  EXPECT_THROW(waiting.result(), Failure);
  EXPECT_LE(guest(rate).waits().next_in, period);
}

TEST_P(LimitContract, with_a_wait_a_store_that_is_not_there_yet_is_waited_for) {
  auto& early = guest();
  FaultyRates limits(
      rates_of(*early.store),
      {{1, {Failure(Failure::Kind::unreachable, "gone")}},
       {2, {Failure(Failure::Kind::unreachable, "gone"), Fault::When::after}}});
  TurnPatience patience;
  patience.until = later(Clock::now(), seconds(10));
  int told = 0;
  patience.retrying = [&](const Failure&) { ++told; };

  const auto answer =
      result_of(context_, await_admission(limits, early.claim, patience, early.wakeup));

  // At the second request it had been admitted already, but the reply was lost.
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(std::holds_alternative<Admitted>(answer));
  EXPECT_TRUE(guest().is_admitted());
  EXPECT_FALSE(guest().is_admitted());
}

TEST_P(LimitContract, without_a_wait_a_store_that_is_not_there_is_a_failure) {
  auto& early = guest();
  FaultyRates limits(rates_of(*early.store),
                     {{1, {Failure(Failure::Kind::unreachable, "gone")}}});

  EXPECT_THROW(
      result_of(context_, await_admission(limits, early.claim, {}, early.wakeup)),
      Failure);
}

INSTANTIATE_TEST_SUITE_P(Stores, LimitContract,
                         ::testing::ValuesIn(kinds_with(&Kind::keeps_rates)), name_of);

// The server's clock cannot be set back here, but its records can be moved ahead of it.
TEST(RedisLimit, a_clock_that_is_set_back_delays_nobody_by_more_than_a_period) {
  RedisWorld world;
  asio::io_context context;
  const Rate rate{1, period};
  Guest first(context, world, rate, "api", "dlock");
  Guest next(context, world, rate, "api", "dlock");
  ASSERT_TRUE(first.is_admitted());
  const auto ahead = std::to_string(wall_now().count() + 3'600'000'000);
  RedisWorld::command("HSET dlock:{api}:limit last " + ahead);
  RedisWorld::command("DEL dlock:{api}:limit:stamps");
  RedisWorld::command("ZADD dlock:{api}:limit:stamps " + ahead + " another");

  const auto turn = std::get<NotAdmitted>(next.ask(seconds(5)));
  EXPECT_LE(turn.next_in, rate.period);
  const auto until = later(Clock::now(), turn.next_in);
  eventually(context, [&] { return Clock::now() >= until; });

  EXPECT_TRUE(next.is_admitted());
}

TEST(LocalLimit, an_unused_limit_is_removed_from_the_store_once_a_day) {
  LocalWorld world;
  asio::io_context context;
  Guest old(context, world, {1, milliseconds(1)}, "old", "dlock");
  Guest used(context, world, {1, hours(1)}, "used", "dlock");
  ASSERT_TRUE(old.is_admitted());
  ASSERT_TRUE(used.is_admitted());
  const auto directory = Directory::open(world.path(), false, Directory::Missing::accept);
  const auto folder = local::open_state_folder(*directory);
  const auto has = [&](const std::string& name) {
    const auto key = local::key_of({"dlock", name}, local::StateKind::limit);
    return std::filesystem::exists(folder->path_of(key.file));
  };
  ASSERT_TRUE(has("old"));
  local::set_head(*folder, {0, 0});
  const auto over = Clock::now() + milliseconds(2);
  while (Clock::now() < over) ::usleep(100);

  Guest other(context, world, {1, hours(1)}, "other", "dlock");
  ASSERT_TRUE(other.is_admitted());

  EXPECT_FALSE(has("old"));
  EXPECT_TRUE(has("used"));
  Guest again(context, world, {1, hours(1)}, "used", "dlock");
  EXPECT_FALSE(again.is_admitted());
}

TEST(NoLimit, admits_everyone) {
  asio::io_context context;
  const auto store = open_store(parsed_store_url("none:"), milliseconds(1000), context);
  Wakeup wakeup(context);
  RateClaim claim;

  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::holds_alternative<Admitted>(
        result_of(context, rates_of(*store).admit(claim, wakeup))));
  }
  result_of(context, rates_of(*store).withdraw(claim, wakeup));
}

}  // namespace
}  // namespace dlock
