// What every store promises about limits (Store::admit), and waiting for a turn.

#include <gtest/gtest.h>
#include <unistd.h>

#include <list>
#include <string>

#include "lease/holding.hpp"
#include "store/local/state_folder.hpp"
#include "store/open.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/faulty_store.hpp"
#include "tests/contract/scenes.hpp"
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

  asio::io_context& context;
  Wakeup wakeup;
  std::unique_ptr<Store> store;
  RateClaim claim;
};

[[maybe_unused]] const bool limit_scenes =
    add_scenes("LimitContract", kinds_with(&Kind::keeps_rates), R"(
admits at most the limit:
  a enters admitted remaining=1; b enters admitted remaining=0
  ; c enters turned_away remaining=0 !turn next_in>3540s next_in<=1h
admits again when a period is over:
  a(rate=2/500ms) enters admitted; b(rate=2/500ms) enters admitted; c(rate=2/500ms) enters turned_away
  ; pause 500ms; c enters admitted
limits of different names and namespaces are independent:
  a(rate=1/1h) enters admitted; b(rate=1/1h, name=other) enters admitted
  ; c(rate=1/1h, space=elsewhere) enters admitted; d(rate=1/1h, name={job}:limit) enters admitted
  ; e(rate=1/1h) enters turned_away
a claim is admitted once however often it asks:
  a enters admitted; a enters admitted; b enters admitted; c enters turned_away
a repeated claim is admitted even if no other is:
  a(rate=1/1h) enters admitted; a enters admitted; b(rate=1/1h) enters turned_away
waiters get turns in order:
  a enters admitted; b enters admitted; c enters(1h) turned_away turn next_in<=1h
  ; d enters(1h) turned_away turn next_in<=1h; e enters(3h) turned_away turn next_in>7140s next_in<=2h
# It has no place in the queue either.
a turn after the end of the wait is not given:
  a enters admitted; b enters admitted; c enters(60s) turned_away !turn; d enters(1h) turned_away turn
  ; e enters(1h) turned_away turn next_in<=1h
no claim overtakes the queue:
  a(rate=2/500ms) enters admitted; b(rate=2/500ms) enters admitted; c(rate=2/500ms) enters(1h) turn
  ; d(rate=2/500ms) enters(1h) turn; pause 500ms; e(rate=2/500ms) enters turned_away; c enters admitted
  ; e enters turned_away; d enters admitted
a place that is given up is free:
  a(rate=1/500ms) enters admitted; b(rate=1/500ms) enters(1h) turn; b withdraws; pause 500ms
  ; c(rate=1/500ms) enters admitted
a claim without a place can withdraw:
  a withdraws; b enters admitted
another rate is refused with the one in use:
  a enters admitted; b enters admitted; c(rate=3/1h) enters differs most=2 period=3600000
  ; d(rate=2/2h) enters(9h) differs most=2 period=3600000
another rate is fine once the last one is over:
  a(rate=1/50ms) enters admitted; pause 60ms; b(rate=3/1h) enters admitted; c(rate=3/1h) enters admitted
a limit is not a lock:
  a enters admitted; list names=; lock holders=0; b takes; c enters admitted
a store that does not answer is a failure:
  server stalls; a(hurries) enters unreachable
a waiter is admitted at its turn:
  a(rate=1/500ms) enters admitted; b(rate=1/500ms) waits_for_turn(5s) admitted took>450ms
a claim that would wait too long is refused at once:
  a enters admitted; b enters admitted; c waits_for_turn(30s) turned_away took<5s
)");

class LimitContract : public ::testing::TestWithParam<Kind> {
 protected:
  Guest& guest(const Rate& rate = {2, hours(1)}, const std::string& name = "api",
               const std::string& name_space = "dlock") {
    return guests_.emplace_back(context_, *world_, rate, name, name_space);
  }
  void fill(const Rate& rate) {
    for (unsigned i = 0; i < rate.most; ++i) ASSERT_TRUE(guest(rate).is_admitted());
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Guest> guests_;
};

TEST_P(LimitContract, the_longest_names_can_be_used) {
  const std::string longest(255, 'x');
  const Rate one{1, hours(1)};

  EXPECT_TRUE(guest(one, longest, longest).is_admitted());
  EXPECT_FALSE(guest(one, longest, longest).is_admitted());
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
