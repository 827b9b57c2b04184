// Waiters far back in a long queue on a Redis server do without a connection for a while.

#include <gtest/gtest.h>

#include <cstdlib>

#include "store/redis/redis_claimant.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/redis_server.hpp"
#include "util/bits.hpp"

namespace dlock::redis {
namespace {

using namespace std::chrono_literals;

// A claim with its own connection, as each process has one.
struct Waiter {
  Waiter(asio::io_context& context, const RedisServer& server, const Claim& claim)
      : route(context, target(server), 2s),
        claimant(context, route, claim),
        wakeup(context) {}

  static Target target(const RedisServer& server) {
    Target target;
    target.path = server.socket();
    return target;
  }

  SoleRoute route;
  RedisClaimant claimant;
  Wakeup wakeup;
};

class Parking : public ::testing::Test {
 protected:
  // The lock is held, and that many others are waiting.
  void queue(int others) {
    server_.command("SET dlock:{job} other PX 600000");
    server_.command(
        "EVAL \"for i = 1, ARGV[1] do local token = string.format('%032x', i) "
        "redis.call('ZADD', KEYS[1] .. ':q', i, token) "
        "redis.call('HSET', KEYS[1] .. ':w', token, "
        "'x ' .. i .. ' 9000000000000000 0 30000 0a {}') end\" 1 dlock:{job} " +
        std::to_string(others));
  }

  void empty_queue() {
    server_.command("ZREMRANGEBYSCORE dlock:{job}:q 0 1000000");
    server_.command("DEL dlock:{job}");
  }

  // The last run took this long.
  void record_run(milliseconds took) {
    server_.command("LPUSH dlock:{job}:r \"7 1000000 " +
                    std::to_string(1'000'000 + took.count() * 1000) + " {}\"");
  }

  static Claim plain() {
    Claim claim;
    claim.lock = {"dlock", "job"};
    claim.token = Token{random_bytes()};
    return claim;
  }

  std::shared_ptr<Waiter> waiter(const Claim& claim = plain()) {
    return std::make_shared<Waiter>(context_, server_, claim);
  }

  Answer ask(Waiter& waiter) {
    return result_of(context_, waiter.claimant.ask(Queue::join, waiter.wakeup));
  }

  std::size_t place_of(Waiter& waiter) {
    const auto answer = ask(waiter);
    const auto* busy = std::get_if<Busy>(&answer);
    return busy == nullptr ? 0 : busy->place;
  }

  // Without the one that asks for it.
  int connections() const {
    const auto text = server_.command("INFO clients");
    const auto at = text.find("connected_clients:");
    return std::atoi(text.c_str() + at + std::strlen("connected_clients:")) - 1;
  }

  // For how long a new waiter is parked behind that many others; nothing if it stays
  // connected.
  std::optional<milliseconds> parked(int others, const Claim& claim = plain()) {
    queue(others);
    const auto late = waiter(claim);
    const auto began = Clock::now();
    EXPECT_EQ(place_of(*late), static_cast<std::size_t>(others) + 1);
    const auto span =
        std::chrono::round<milliseconds>(late->claimant.ask_again_at() - began);
    const bool is_parked = eventually(
        context_, [&] { return connections() == 0; }, 200ms);
    result_of(context_, [&]() -> asio::awaitable<void> {
      co_await late->claimant.release(std::nullopt, late->wakeup);
    }());
    return is_parked ? std::optional(span) : std::nullopt;
  }

  static bool eventually(asio::io_context& context, const std::function<bool()>& is_true,
                         milliseconds within) {
    const auto give_up_at = Clock::now() + within;
    while (!is_true()) {
      if (Clock::now() > give_up_at) return false;
      context.restart();
      context.run_one_for(10ms);
    }
    return true;
  }

  asio::io_context context_;
  RedisServer server_;
};

// Waits are shortened at random by up to a tenth.
void expect_about(std::optional<milliseconds> span, milliseconds expected) {
  ASSERT_TRUE(span);
  EXPECT_LE(*span, expected + 1s);
  EXPECT_GE(*span, expected * 9 / 10 - 1s);
}

TEST_F(Parking,
       from_place_500_on_lasts_in_proportion_to_the_place_and_ten_minutes_at_most) {
  record_run(1h);

  EXPECT_FALSE(parked(498));
  EXPECT_FALSE(parked(499));
  expect_about(parked(500), 45s);
  expect_about(parked(999), 90s);
  expect_about(parked(20'000), 10min);
}

TEST_F(Parking, lasts_half_the_time_until_the_place_can_be_500_at_most) {
  record_run(1s);

  EXPECT_FALSE(parked(580));
  expect_about(parked(600), 50s);
}

TEST_F(Parking, expects_the_quickest_of_the_last_five_runs) {
  record_run(1ms);
  record_run(1s);
  for (int i = 0; i < 4; ++i) record_run(1h);

  expect_about(parked(600), 50s);
}

TEST_F(Parking, without_runs_begins_where_the_connections_of_a_server_may_not_suffice) {
  EXPECT_FALSE(parked(7990));
  expect_about(parked(8999), 51s);
}

TEST_F(Parking, is_not_for_waiters_that_can_leave_together_or_must_be_notified) {
  record_run(1h);
  auto shared = plain();
  shared.mode = Mode::shared;
  auto newest = plain();
  newest.supersedes = true;
  auto replacing = plain();
  replacing.replaces = true;
  auto once = plain();
  once.dedupe = Dedupe{};
  once.dedupe->window = 1h;

  for (const auto& claim : {shared, newest, replacing, once}) {
    EXPECT_FALSE(parked(600, claim));
  }
}

TEST_F(Parking, keeps_the_place_for_twice_as_long) {
  record_run(1h);
  queue(999);
  const auto late = waiter();
  ask(*late);

  const auto record =
      server_.command("HGET dlock:{job}:w " + text_of(late->claimant.claim().token));

  const auto now = wall_now().count();
  const auto at = record.find("\r\nx ");
  ASSERT_NE(at, std::string::npos) << record;
  char* next = nullptr;
  std::strtoll(record.c_str() + at + 4, &next, 10);
  const auto until = std::strtoll(next, nullptr, 10);
  EXPECT_NEAR(static_cast<double>(until - now), 180e6, 5e6);
}

TEST_F(Parking, keeps_the_order) {
  record_run(1h);
  queue(600);
  const auto first = waiter();
  const auto second = waiter();
  EXPECT_EQ(place_of(*first), 601u);
  EXPECT_EQ(place_of(*second), 602u);
  EXPECT_TRUE(dlock::eventually(context_, [&] { return connections() == 0; }));

  EXPECT_EQ(place_of(*second), 602u);
  EXPECT_EQ(place_of(*first), 601u);
  empty_queue();
  EXPECT_FALSE(std::holds_alternative<Grant>(ask(*second)));
  EXPECT_TRUE(std::holds_alternative<Grant>(ask(*first)));
}

TEST_F(Parking, delays_the_next_by_a_promise_if_the_waiter_does_not_come_back) {
  record_run(1h);
  queue(600);
  const auto dead = waiter();
  const auto next = waiter();
  ask(*dead);
  ask(*next);
  empty_queue();
  const auto began = Clock::now();
  auto get_it = [&]() -> asio::awaitable<void> {
    for (;;) {
      const auto answer = co_await next->claimant.ask(Queue::join, next->wakeup);
      if (std::holds_alternative<Grant>(answer)) co_return;
      co_await next->claimant.await_turn(endless(next->wakeup));
    }
  };

  result_of(context_, get_it());

  EXPECT_LT(Clock::now() - began, 4s);
}

TEST_F(Parking, ends_when_the_wait_is_over_or_interrupted) {
  record_run(1h);
  queue(600);
  const auto late = waiter();
  ask(*late);
  const auto began = Clock::now();

  result_of(context_, late->claimant.await_turn(late->wakeup.within(200ms)));
  EXPECT_GE(Clock::now() - began, 200ms);
  late->wakeup.give_up(true);
  result_of(context_, late->claimant.await_turn(endless(late->wakeup)));

  EXPECT_LT(Clock::now() - began, 5s);
}

}  // namespace
}  // namespace dlock::redis
