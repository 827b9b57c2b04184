// A lock on a server that was held only briefly is granted to the first waiter by the
// release, without another request.

#include <gtest/gtest.h>

#include <list>
#include <string>

#include "tests/contract/contender.hpp"
#include "tests/contract/peer.hpp"

namespace dlock::redis {
namespace {

// Runs on a server. The tests set times in its records, as if that time had passed.
class QuickLock : public ::testing::Test {
 protected:
  static Claim quick_claim() { return claim_of("quick"); }

  Contender& contender(const Claim& claim = quick_claim()) {
    return contenders_.emplace_back(context_, world_, claim);
  }
  // A waiter that has just asked.
  Contender& waiter(const Claim& claim = quick_claim()) {
    auto& waits = contender(claim);
    waits.queued();
    return waits;
  }

  // In all records of a hash, replaces what `pattern` matches after its capture by a
  // moment of the server's clock, `ms_on` milliseconds from now, and by `rest`.
  static void rewrite(const std::string& hash, const std::string& pattern, int ms_on,
                      const std::string& rest = "") {
    RedisWorld::command(
        "EVAL \"local t = redis.call('TIME'); "
        "local at = string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[1] * 1000); "
        "local all = redis.call('HGETALL', KEYS[1]); "
        "for i = 1, #all, 2 do redis.call('HSET', KEYS[1], all[i], "
        "(string.gsub(all[i + 1], '" +
        pattern + "', '%1 ' .. at .. '" + rest + "'))) end\" 1 dlock:{quick}:" + hash +
        " " + std::to_string(ms_on));
  }
  // As if the lock had been granted `ms` milliseconds ago.
  static void held_for(int ms) { rewrite("h", "^(%a %d+ %d+) %d+", -ms); }
  // As if all waiters had asked `ms_ago` milliseconds ago, when the lock had just been
  // granted (3) or not (2 for one that watches).
  static void heard(int ms_ago, char state = '3') {
    rewrite("w", "^(%a %d+) %d+ %d", 90'000 - ms_ago, std::string(" ") + state);
  }

  // Releases the lock as if it had just been granted and all waiters had just asked. A
  // machine that is busy may need longer for that than a quick lock is held.
  void release_quickly(Contender& holder) {
    held_for(-1'000);
    heard(0);
    holder.release();
  }

  // The answer to a waiter that waits for its turn.
  Answer turn_of(Contender& waiter) {
    result_of(context_,
              waiter.claimant().await_turn(waiter.wakeup.within(milliseconds(5'000))));
    return waiter.ask();
  }

  bool is_held() { return !contender().inspect().holders.empty(); }

  TemporaryDirectory temporary_;
  asio::io_context context_;
  RedisWorld world_;
  std::list<Contender> contenders_;
};

TEST_F(QuickLock, is_handed_over_to_the_first_waiter_at_once) {
  auto& holder = contender();
  const auto before = holder.granted().fence;
  auto& next = waiter();
  const auto queued_at = Clock::now();
  waiter();

  release_quickly(holder);

  const auto lock = holder.inspect();
  ASSERT_EQ(lock.holders.size(), 1u);
  EXPECT_EQ(lock.waiters.size(), 1u);
  const auto answer = turn_of(next);
  ASSERT_TRUE(std::holds_alternative<Grant>(answer));
  const auto& grant = std::get<Grant>(answer);
  EXPECT_EQ(grant.fence.number, lock.holders[0].fence.number);
  EXPECT_GT(grant.fence.number, before.number);
  // It has not asked again, so its lease is counted from its first request.
  EXPECT_LE(grant.sent_at, queued_at);
  EXPECT_EQ(next.release(), Release::released);
}

TEST_F(QuickLock, goes_from_waiter_to_waiter_in_the_order_of_their_arrival) {
  auto* holder = &contender();
  holder->granted();
  std::vector<Contender*> waiters;
  for (int i = 0; i < 6; ++i) waiters.push_back(&waiter());

  for (auto* next : waiters) {
    release_quickly(*holder);
    for (auto* other : waiters) EXPECT_TRUE(other == next || !other->is_granted());
    EXPECT_TRUE(next->is_granted());
    holder = next;
  }
}

TEST_F(QuickLock, is_renewed_and_released_like_any_other) {
  auto& holder = contender();
  holder.granted();
  auto& next = waiter();
  release_quickly(holder);
  ASSERT_TRUE(std::holds_alternative<Grant>(turn_of(next)));

  EXPECT_EQ(next.renew(), Renewal::confirmed);
  EXPECT_TRUE(contender().is_busy());
  EXPECT_EQ(next.release(RunEnd{}), Release::released);
  EXPECT_EQ(next.history().size(), 1u);
}

TEST_F(QuickLock, is_requested_again_if_the_hand_over_arrives_late) {
  auto claim = quick_claim();
  claim.ttl = milliseconds(2'000);
  auto& holder = contender();
  holder.granted();
  auto& next = waiter(claim);
  release_quickly(holder);
  const auto fence = holder.inspect().holders.at(0).fence;
  const auto late = Clock::now() + claim.ttl / 10;
  ASSERT_TRUE(eventually(context_, [&] { return Clock::now() > late; }));

  const auto answer = turn_of(next);

  ASSERT_TRUE(std::holds_alternative<Grant>(answer));
  EXPECT_EQ(std::get<Grant>(answer).fence.number, fence.number);
  EXPECT_GT(std::get<Grant>(answer).sent_at, late);
}

// It could not read its list, because it was cut off from the server.
TEST_F(QuickLock, is_not_held_by_a_waiter_that_reads_of_a_grant_that_has_expired) {
  auto claim = quick_claim();
  claim.ttl = milliseconds(500);
  auto& holder = contender();
  holder.granted();
  auto& next = waiter(claim);
  release_quickly(holder);
  ASSERT_TRUE(is_held());
  ASSERT_TRUE(eventually(context_, [&] { return !is_held(); }));
  contender().granted();
  next.queued();

  result_of(context_, next.claimant().await_turn(next.wakeup.within(milliseconds(50))));

  EXPECT_TRUE(next.is_busy());
}

TEST_F(QuickLock, is_released_by_a_waiter_that_gave_up) {
  for (const bool was_told : {false, true}) {
    auto& holder = contender();
    holder.granted();
    auto& next = waiter();
    release_quickly(holder);
    if (was_told) {
      result_of(context_,
                next.claimant().await_turn(next.wakeup.within(milliseconds(5'000))));
    }

    EXPECT_EQ(next.release(), Release::released);

    const auto given_up_at = Clock::now();
    EXPECT_FALSE(is_held());
    EXPECT_EQ(RedisWorld::command("KEYS dlock:{quick}:w*"), "*0\r\n");
    EXPECT_GE(next.granted().sent_at, given_up_at);  // a new grant
    next.release();
    EXPECT_TRUE(next.history().empty());
  }
}

TEST_F(QuickLock, is_granted_to_a_waiter_that_asks_though_it_was_notified) {
  auto& holder = contender();
  holder.granted();
  auto& next = waiter();
  release_quickly(holder);

  EXPECT_TRUE(next.is_granted());

  EXPECT_EQ(RedisWorld::command("KEYS dlock:{quick}:w*"), "*0\r\n");
}

// A promised lock is shown without a holder.
TEST_F(QuickLock, is_only_promised_if_it_was_held_or_nobody_has_asked_for_longer) {
  const struct {
    int held_for;
    int heard;
    char state;  // 2: the waiter came when it had been held for longer
  } rows[] = {{15, 0, '3'}, {0, 300, '3'}, {0, 0, '2'}};
  for (const auto& row : rows) {
    auto& holder = contender();
    holder.granted();
    auto& next = waiter();
    held_for(row.held_for);
    heard(row.heard, row.state);

    holder.release();

    EXPECT_FALSE(is_held()) << row.held_for << " " << row.heard << row.state;
    EXPECT_TRUE(next.is_granted());
    next.release();
  }
}

TEST_F(QuickLock, is_only_promised_to_shared_detached_and_deduplicating_claims) {
  auto shared = quick_claim();
  shared.mode = Mode::shared;
  auto detached = quick_claim();
  detached.attached = false;
  auto deduplicated = quick_claim();
  deduplicated.dedupe = Dedupe{milliseconds(1), true, false};
  for (const auto& claim : {shared, detached, deduplicated}) {
    auto& holder = contender();
    holder.granted();
    auto& next = waiter(claim);

    release_quickly(holder);

    EXPECT_FALSE(is_held());
    EXPECT_TRUE(next.is_granted());
    next.release();
  }
}

TEST_F(QuickLock, is_only_promised_if_it_has_slots) {
  auto claim = quick_claim();
  claim.slots = 2;
  auto& holder = contender(claim);
  holder.granted();
  claim.token.bytes = random_bytes();
  contender(claim).granted();
  claim.token.bytes = random_bytes();
  auto& next = waiter(claim);

  release_quickly(holder);

  EXPECT_EQ(next.inspect().holders.size(), 1u);
  EXPECT_TRUE(next.is_granted());
}

// The waiters before it were stopped when it was their turn.
TEST_F(QuickLock, is_watched_by_the_first_waiter_that_can_have_it_next) {
  auto& holder = contender();
  holder.granted();
  for (int i = 0; i < 5; ++i) waiter();
  held_for(0);
  heard(0);
  // The fourth word of a record is 1 if the waiter was passed over, 2 if it watches, and
  // 0 otherwise.
  RedisWorld::command(
      "EVAL \"for i, token in ipairs(redis.call('ZRANGE', KEYS[1], 1, 4)) do "
      "redis.call('HSET', KEYS[2], token, (string.gsub(redis.call('HGET', KEYS[2], "
      "token), '^(%a %d+ %d+) %d', i < 4 and '%1 1' or '%1 0'))) end\" 2 dlock:{quick}:q "
      "dlock:{quick}:w");

  holder.release();

  // One waiter is told that it has the lock, another one that it is to watch.
  const auto lists = RedisWorld::command("KEYS dlock:{quick}:w:*");
  EXPECT_EQ(lists.substr(0, 2), "*2");
}

std::string states_of_waiters() {
  return RedisWorld::command(
      "EVAL \"local states = '' for i, token in ipairs(redis.call('ZRANGE', KEYS[1], 0, "
      "-1)) do states = states .. string.match(redis.call('HGET', KEYS[2], token), '^%a "
      "%d+ %d+ (%d)') end return states\" 2 dlock:{quick}:q dlock:{quick}:w");
}

TEST_F(QuickLock, is_watched_by_the_first_two_waiters_if_it_was_held_for_longer) {
  contender().granted();
  held_for(15);
  for (int i = 0; i < 3; ++i) waiter();

  EXPECT_EQ(states_of_waiters(), "$3\r\n220\r\n");
}

TEST_F(QuickLock, is_watched_by_fifty_waiters_that_come_when_it_was_just_granted) {
  contender().granted();
  held_for(-60'000);
  for (int i = 0; i < 52; ++i) waiter();

  EXPECT_EQ(states_of_waiters(), "$52\r\n" + std::string(50, '3') + "00\r\n");
}

// A lock that is promised to a waiter, which may be dead, as those right behind it.
// Others are told to look at it, and one of these leaves.
class PromisedLock : public QuickLock {
 protected:
  // After `holder` has had the lock for longer than a moment.
  static void promise_by(Contender& holder, const std::optional<RunEnd>& end = {}) {
    held_for(15);
    holder.release(end);
  }

  // All that has to be told to waiters until now is read.
  static void read_all() {
    RedisWorld::command(
        "EVAL \"for _, list in ipairs(redis.call('KEYS', 'dlock:{quick}:[aw]*')) do "
        "if redis.call('TYPE', list).ok == 'list' then redis.call('DEL', list) end end\" "
        "0");
  }

  // That the waiter which listens first, and the last one, are told to look at it.
  static void expect_others_to_be_told() {
    EXPECT_EQ(RedisWorld::command("LRANGE dlock:{quick}:a 0 -1"), "*1\r\n$4\r\n2000\r\n");
    EXPECT_EQ(
        RedisWorld::command(
            "EVAL \"local last = redis.call('ZRANGE', KEYS[1], -1, -1)[1] local id = "
            "string.match(redis.call('HGET', KEYS[2], last), '^%a %d+ %d+ %d %d+ "
            "(%x+)') return redis.call('LRANGE', KEYS[2] .. ':' .. id, -1, -1)\" 2 "
            "dlock:{quick}:q dlock:{quick}:w"),
        "*1\r\n$4\r\n2000\r\n");
  }
};

TEST_F(PromisedLock, is_watched_by_others_once_a_waiter_has_given_up) {
  auto& holder = contender();
  holder.granted();
  for (int i = 0; i < 3; ++i) waiter();
  auto& leaves = waiter();
  waiter();
  promise_by(holder);
  expect_others_to_be_told();
  read_all();

  leaves.release();

  expect_others_to_be_told();
}

TEST_F(PromisedLock, is_watched_by_others_once_a_waiter_was_superseded) {
  auto& holder = contender();
  holder.granted();
  for (int i = 0; i < 3; ++i) waiter();
  auto claim = quick_claim();
  claim.supersedes = true;
  waiter(claim);
  waiter();
  promise_by(holder);
  read_all();

  claim.token.bytes = random_bytes();
  waiter(claim);

  EXPECT_NE(RedisWorld::command("LLEN dlock:{quick}:a"), ":0\r\n");
}

TEST_F(PromisedLock, is_watched_by_others_if_a_waiter_left_right_before_that) {
  auto& holder = contender();
  holder.granted();
  auto& next = waiter();
  for (int i = 0; i < 3; ++i) waiter();
  auto deduplicated = quick_claim();
  deduplicated.dedupe = Dedupe{milliseconds(60'000), true, false};
  waiter(deduplicated);
  waiter();
  promise_by(holder);
  next.granted();
  read_all();
  RunEnd succeeded;
  succeeded.exit_code = 0;
  succeeded.outcome = "ran";

  promise_by(next, succeeded);

  expect_others_to_be_told();
}

}  // namespace
}  // namespace dlock::redis
