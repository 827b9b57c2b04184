// What only stores on a server promise: about leases that expire or that the server
// loses.

#include "store/redis/redis_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <list>

#include "store/open.hpp"
#include "store/redis/redis_claimant.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/peer.hpp"
#include "tests/run_end.hpp"

namespace dlock::redis {
namespace {

using std::chrono::seconds;

class Witness final : public LeaseWatcher {
 public:
  void extend(Clock::time_point until) override { deadline = until; }
  void reclaimed() override { ++times_reclaimed; }
  void forfeit(Loss loss) override { lost = loss; }

  std::optional<Clock::time_point> deadline;
  int times_reclaimed = 0;
  std::optional<Loss> lost;
};

// A claim whose lease is renewed several times a second and can be set up again.
Claim brief_claim() {
  auto claim = claim_of("job");
  claim.ttl = milliseconds(600);
  claim.reclaim = true;
  return claim;
}

// A contender with a grant, and what its keeper reports.
struct Holder {
  Contender* contender;
  Grant grant;
  Witness witness;
};

class RedisStores : public ::testing::Test {
 protected:
  Contender& contender(const Claim& claim = brief_claim()) {
    return contenders_.emplace_back(context_, world_, claim);
  }
  Contender& shared() {
    auto claim = brief_claim();
    claim.mode = Mode::shared;
    return contender(claim);
  }
  Contender& slot(unsigned slots) {
    auto claim = brief_claim();
    claim.slots = slots;
    return contender(claim);
  }
  Holder& holder(Contender& contender) {
    return holders_.emplace_back(Holder{&contender, contender.granted(), {}});
  }

  void keep(Holder& holder) { holder.contender->keep(holder.grant, holder.witness); }
  // Keeps the lease until its next renewal is answered. Returns whether it still holds.
  bool renews(Holder& holder) {
    holder.witness.deadline.reset();
    keep(holder);
    EXPECT_TRUE(eventually(context_, [&] {
      return holder.witness.deadline.has_value() || holder.witness.lost;
    }));
    holder.contender->stop_keeping();
    return !holder.witness.lost;
  }
  bool reclaims(Holder& holder) {
    const auto before = holder.witness.times_reclaimed;
    return renews(holder) && holder.witness.times_reclaimed == before + 1;
  }

  // As if the server's clock had been an hour ahead at the last grant.
  static void set_clock_ahead() {
    const auto fence = wall_now() + std::chrono::hours(1);
    RedisWorld::command("HSET dlock:{job}:s fence " + std::to_string(fence.count()));
  }
  void delete_lock() { EXPECT_EQ(RedisWorld::command("DEL dlock:{job}"), ":1\r\n"); }
  static std::string hex(const Token& token) {
    std::string text;
    for (const auto byte : token.bytes) {
      text += "0123456789abcdef"[byte >> 4u];
      text += "0123456789abcdef"[byte & 15u];
    }
    return text;
  }

  TemporaryDirectory temporary_;
  asio::io_context context_;
  RedisWorld world_;
  std::list<Contender> contenders_;
  std::list<Holder> holders_;
};

// Losses

TEST_F(RedisStores, a_lease_that_was_granted_again_is_not_the_one_that_is_kept) {
  auto claim = brief_claim();
  claim.reclaim = false;
  auto& kept = holder(contender(claim));
  delete_lock();
  contender().granted();
  contenders_.back().release();
  contender(claim).granted();  // as by a late request

  EXPECT_FALSE(renews(kept));

  EXPECT_EQ(kept.witness.lost, Loss::taken_over);
}

TEST_F(RedisStores, a_release_reports_that_the_lease_was_granted_again) {
  auto& holder = contender();
  holder.granted();
  delete_lock();
  contender().granted();
  contenders_.back().release();
  contender(holder.claim).granted();

  EXPECT_EQ(holder.release(exit_with(0)), Release::taken_over);
}

TEST_F(RedisStores, a_release_reports_that_another_has_the_lock) {
  auto& holder = contender();
  holder.granted();
  delete_lock();
  contender().granted();

  EXPECT_EQ(holder.release(exit_with(0)), Release::taken_over);
}

TEST_F(RedisStores, a_release_sets_up_a_lease_again_if_allowed) {
  auto& holder = contender();  // with reclaim
  holder.granted();
  delete_lock();

  EXPECT_EQ(holder.release(exit_with(0)), Release::released);
  EXPECT_EQ(contender().inspect().last_run->outcome, "ran");
}

// Lock delay

TEST_F(RedisStores, a_renewal_stores_the_ttl_plus_lock_delay_and_promises_the_ttl) {
  auto claim = brief_claim();
  claim.lock_delay = seconds(100);
  auto& kept = holder(contender(claim));

  ASSERT_TRUE(renews(kept));

  EXPECT_LT(*kept.witness.deadline, Clock::now() + claim.ttl);
  EXPECT_GT(contender().inspect().holders.at(0).expires_in, seconds(100));
}

TEST_F(RedisStores, a_lease_that_is_set_up_again_has_its_lock_delay) {
  auto claim = brief_claim();
  claim.lock_delay = seconds(100);
  auto& lost = holder(contender(claim));
  world_.wipe_out();

  ASSERT_TRUE(reclaims(lost));

  EXPECT_LT(*lost.witness.deadline, Clock::now() + claim.ttl);
  EXPECT_GT(contender().inspect().holders.at(0).expires_in, seconds(100));
}

// Leases that the server lost

TEST_F(RedisStores, a_lease_that_was_wiped_out_is_set_up_again_as_it_was) {
  auto claim = brief_claim();
  claim.label = "nightly";
  claim.command = {"./backup.sh", "--all"};
  auto& lost = holder(contender(claim));
  const auto before = contender().inspect().holders.at(0);
  world_.wipe_out();

  ASSERT_TRUE(reclaims(lost));

  const auto holders = contender().inspect().holders;
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].fence, lost.grant.fence);
  EXPECT_EQ(holders[0].slot, lost.grant.slot);
  EXPECT_EQ(holders[0].host, before.host);
  EXPECT_EQ(holders[0].pid, ::getpid());
  EXPECT_EQ(holders[0].user, before.user);
  EXPECT_EQ(holders[0].command, claim.command);
  EXPECT_EQ(holders[0].label, "nightly");
  EXPECT_EQ(holders[0].since, before.since);
  EXPECT_TRUE(contender().is_busy());
}

TEST_F(RedisStores, a_lease_that_was_set_up_again_holds_a_full_ttl) {
  auto& lost = holder(contender());
  world_.wipe_out();
  const auto before = Clock::now();

  ASSERT_TRUE(reclaims(lost));

  const auto timing = timing_of(lost.contender->claim);
  EXPECT_GE(lost.witness.deadline, timing.deadline(before));
  EXPECT_LE(lost.witness.deadline, timing.deadline(Clock::now()));
  const auto left = contender().inspect().holders.at(0).expires_in;
  EXPECT_LE(left, milliseconds(600));
  EXPECT_GT(left, milliseconds(300));
}

TEST_F(RedisStores, a_lease_that_was_set_up_again_is_like_any_other) {
  auto& lost = holder(contender());
  world_.wipe_out();
  ASSERT_TRUE(reclaims(lost));

  EXPECT_TRUE(renews(lost));
  EXPECT_EQ(lost.witness.times_reclaimed, 1);
  EXPECT_EQ(lost.contender->granted().fence, lost.grant.fence);
  EXPECT_EQ(lost.contender->release(), Release::released);
  EXPECT_TRUE(contender().is_granted());
}

TEST_F(RedisStores, a_lease_can_be_set_up_again_several_times) {
  auto& lost = holder(contender());
  for (int i = 0; i < 3; ++i) {
    world_.wipe_out();
    EXPECT_TRUE(reclaims(lost));
    delete_lock();
    EXPECT_TRUE(reclaims(lost));
  }
}

TEST_F(RedisStores, a_lease_whose_key_was_deleted_is_set_up_again_as_it_was) {
  auto& lost = holder(contender());
  const auto before = contender().inspect().holders.at(0);
  delete_lock();

  ASSERT_TRUE(reclaims(lost));

  const auto info = contender().inspect();
  ASSERT_EQ(info.holders.size(), 1u);
  EXPECT_EQ(info.holders[0].fence, before.fence);
  EXPECT_EQ(info.holders[0].since, before.since);
  EXPECT_FALSE(info.last_run);
}

TEST_F(RedisStores, a_lease_is_set_up_again_on_a_server_that_lacks_only_its_grant) {
  auto& before = contender();
  const auto fence = std::to_string(before.granted().fence.number);
  before.release();
  auto& lost = holder(contender());
  world_.wipe_out();
  RedisWorld::command("HSET dlock:{job}:s slots 1 fence " + fence + " last " + fence +
                      ":" + hex(before.claim.token).substr(0, 16));

  EXPECT_TRUE(reclaims(lost));
}

TEST_F(RedisStores, a_lease_is_not_set_up_again_after_a_grant_that_it_does_not_know) {
  for (const std::string last : {"", " last 5:0123456789abcdef"}) {
    auto& lost = holder(contender());
    world_.wipe_out();
    RedisWorld::command("HSET dlock:{job}:s fence 5 slots 1" + last);

    EXPECT_FALSE(renews(lost));

    EXPECT_EQ(lost.witness.lost, Loss::taken_over);
    world_.wipe_out();
  }
}

TEST_F(RedisStores,
       the_fence_of_the_next_grant_is_greater_than_that_of_a_reclaimed_lease) {
  set_clock_ahead();
  auto& lost = holder(contender());
  world_.wipe_out();
  ASSERT_TRUE(reclaims(lost));
  lost.contender->release();

  EXPECT_GT(contender().granted().fence, lost.grant.fence);
}

TEST_F(RedisStores,
       the_record_of_a_vanished_run_is_removed_when_its_lease_is_set_up_again) {
  auto& lost = holder(contender());
  const auto since = contender().inspect().holders.at(0).since;
  auto& waiter = contender();
  waiter.queued();
  delete_lock();
  waiter.release();  // also removes the rest of the lease
  ASSERT_EQ(contender().inspect().last_run->outcome, "vanished");

  ASSERT_TRUE(reclaims(lost));

  EXPECT_FALSE(contender().inspect().last_run);
  EXPECT_EQ(contender().inspect().holders.at(0).since, since);
}

TEST_F(RedisStores, the_records_of_other_runs_are_not_removed) {
  auto& other = contender();
  other.granted();
  RunEnd end;
  end.outcome = "ran";
  end.exit_code = 7;
  other.release(end);
  auto& lost = holder(contender());
  delete_lock();

  ASSERT_TRUE(reclaims(lost));

  EXPECT_EQ(contender().inspect().last_run->exit_code, 7);
}

TEST_F(RedisStores, a_repeated_request_finds_the_lease_set_up) {
  auto& lost = holder(contender());
  world_.wipe_out();
  ASSERT_TRUE(reclaims(lost));
  const auto since = contender().inspect().holders.at(0).since;

  const auto answer =
      RedisWorld::command(std::string("EVALSHA ") + reclaim_script.sha1 +
                          " 1 dlock:{job} " + hex(lost.contender->claim.token) + " " +
                          std::to_string(lost.grant.fence.number) + " 600 x 1 0 {}");

  EXPECT_EQ(answer, "$9\r\nreclaimed\r\n");
  EXPECT_EQ(contender().inspect().holders.at(0).since, since);
  EXPECT_TRUE(renews(lost));
}

// Leases that others were granted meanwhile

TEST_F(RedisStores, a_lock_that_another_run_holds_is_not_set_up_again) {
  auto& lost = holder(contender());
  world_.wipe_out();
  const auto fence = contender().granted().fence;

  EXPECT_FALSE(renews(lost));
  EXPECT_EQ(lost.witness.lost, Loss::taken_over);
  EXPECT_EQ(contender().inspect().holders.at(0).fence, fence);
}

TEST_F(RedisStores, a_lock_that_another_run_held_meanwhile_is_not_set_up_again) {
  for (const bool wiped : {true, false}) {
    auto& lost = holder(contender());
    if (wiped) {
      world_.wipe_out();
    } else {
      delete_lock();
    }
    auto& other = contender();
    other.granted();
    other.release();

    EXPECT_FALSE(renews(lost));
    EXPECT_EQ(lost.witness.lost, Loss::taken_over);
    EXPECT_TRUE(contender().is_granted());
    world_.wipe_out();
  }
}

TEST_F(RedisStores, a_lock_that_is_promised_to_a_waiter_is_not_set_up_again) {
  auto& lost = holder(contender());
  auto& waiter = contender();
  waiter.queued();
  delete_lock();
  ASSERT_TRUE(
      contender().is_busy());  // finds the lock free, and promises it to the waiter

  EXPECT_FALSE(renews(lost));
  EXPECT_EQ(lost.witness.lost, Loss::taken_over);
  EXPECT_TRUE(waiter.is_granted());
}

// The waiter was stopped, for example, from long before the promise until just after it.
TEST_F(RedisStores, a_promise_counts_though_the_place_in_the_queue_expired_since) {
  auto& first = holder(contender());
  auto& waiter = contender();
  waiter.queued();
  first.contender->release();
  // Its record begins with its mode, when it came, and until when it keeps its place.
  RedisWorld::command(
      "EVAL \"local record = redis.call('HGET', KEYS[1], ARGV[1]) "
      "return redis.call('HSET', KEYS[1], ARGV[1], "
      "(string.gsub(record, '^(%a %d+) %d+', '%1 1')))\" 1 dlock:{job}:w " +
      hex(waiter.claim.token));

  EXPECT_TRUE(waiter.is_granted());
}

TEST_F(RedisStores, a_foreign_key_is_left_alone) {
  auto& lost = holder(contender());
  RedisWorld::command("SET dlock:{job} theirs PX 60000");

  EXPECT_FALSE(renews(lost));
  EXPECT_EQ(lost.witness.lost, Loss::taken_over);
  EXPECT_EQ(RedisWorld::command("GET dlock:{job}"), "$6\r\ntheirs\r\n");
}

TEST_F(RedisStores, waiters_keep_waiting_behind_a_lease_that_is_set_up_again) {
  auto& lost = holder(contender());
  auto& waiter = contender();
  waiter.queued();
  delete_lock();
  ASSERT_TRUE(reclaims(lost));

  EXPECT_EQ(waiter.queued().place, 1u);
  lost.contender->release();
  EXPECT_TRUE(waiter.is_granted());
}

TEST_F(RedisStores, a_released_lease_is_not_set_up_again_by_a_late_request) {
  auto& lost = holder(contender());
  world_.wipe_out();
  RedisWorld::command("SET dlock:{job}:t:" + hex(lost.contender->claim.token) + " 1");

  EXPECT_FALSE(renews(lost));
  EXPECT_TRUE(contender().is_granted());
}

// Nothing else refuses it if the reply to the release is lost, as nothing follows then.
TEST_F(RedisStores, a_release_after_the_end_of_the_lease_refuses_later_requests) {
  auto& lost = holder(contender());
  const auto& claim = lost.contender->claim;
  delete_lock();
  RedisWorld::command(std::string("EVALSHA ") + release_script.sha1 + " 1 dlock:{job} " +
                      hex(claim.token) + " 0 {} 60000 s 0 0 " +
                      std::to_string(lost.grant.fence.number));

  EXPECT_EQ(RedisWorld::command("PTTL dlock:{job}:t:" + hex(claim.token)).size(), 8u);
  Wakeup wakeup(context_);
  const auto late = lost.contender->store->claimant(claim);
  EXPECT_THROW(result_of(context_, late->ask(Queue::stay_out, wakeup)), Failure);
  EXPECT_EQ(RedisWorld::command("EXISTS dlock:{job}"), ":0\r\n");
  // Unless the release itself finds that no other claim was granted the lock.
  EXPECT_TRUE(reclaims(lost));
}

TEST_F(RedisStores, a_release_after_an_unanswered_request_cancels_that_request) {
  const auto path = temporary_.file("socket");
  PeerServer server(
      [](const Peer& peer) {
        if (!peer.read_until("}\r\n$0\r\n\r\n$1\r\n0\r\n$1\r\n0\r\n"))
          return;  // the request for the lock
        peer.send("*4\r\n$7\r\ngranted\r\n$1\r\n5\r\n:0\r\n$0\r\n\r\n");
        if (!peer.read_until("$3\r\n600\r\n")) return;  // the renewal
        peer.send("$4\r\ngone\r\n");
        peer.read_all();  // no replies to the rest
      },
      path);
  const auto url = parsed_store_url("redis+unix:" + path);
  const auto store = open_store(url, milliseconds(77), context_);
  const auto claim = brief_claim();
  const auto claimant = store->claimant(claim);
  Wakeup wakeup(context_);
  const auto grant =
      std::get<Grant>(result_of(context_, claimant->ask(Queue::stay_out, wakeup)));
  Witness witness;
  LeaseKeeper keeper(context_, *claimant, true, timing_of(claim), witness);
  keeper.start(grant.sent_at);
  ASSERT_TRUE(eventually(context_, [&] {
    return server.received().find(reclaim_script.sha1) != std::string::npos;
  }));

  keeper.stop();
  result_of(context_, keeper.ended(wakeup));
  EXPECT_THROW(result_of(context_, claimant->release(std::nullopt, wakeup)), Failure);

  const std::string refusal =
      "$0\r\n\r\n$6\r\n120000\r\n";  // no end of a run, and how long it is kept
  EXPECT_TRUE(eventually(
      context_, [&] { return server.received().find(refusal) != std::string::npos; }));
}

// The reply to the first request does not come, and the second one is refused. The first
// one, which may still arrive, must not get the lock for a claim that has ended.
TEST_F(RedisStores, a_claim_that_is_refused_cancels_an_earlier_request_without_a_reply) {
  const auto path = temporary_.file("socket");
  std::atomic<int> requests{0};
  PeerServer server(
      [&](const Peer& peer) {
        if (!peer.read_until("$1\r\n0\r\n$1\r\n0\r\n$1\r\n7\r\n")) return;
        if (++requests > 1) peer.send("*2\r\n$5\r\nabove\r\n$1\r\n7\r\n");
        peer.read_all();
      },
      path);
  const auto url = parsed_store_url("redis+unix:" + path);
  const auto store = open_store(url, milliseconds(77), context_);
  auto claim = brief_claim();
  claim.outer_fences = {Fence{7}};
  const auto claimant = store->claimant(claim);
  Wakeup wakeup(context_);
  EXPECT_THROW(result_of(context_, claimant->ask(Queue::stay_out, wakeup)), Failure);
  const auto answer = result_of(context_, claimant->ask(Queue::stay_out, wakeup));
  ASSERT_TRUE(std::holds_alternative<HeldByOuterRun>(answer));

  EXPECT_THROW(result_of(context_, claimant->release(std::nullopt, wakeup)), Failure);

  const std::string refusal = "$0\r\n\r\n$6\r\n120000\r\n";
  EXPECT_TRUE(eventually(
      context_, [&] { return server.received().find(refusal) != std::string::npos; }));
}

// A single server that a replica follows, according to this route only.
class Replicated final : public Route {
 public:
  Replicated(asio::io_context& context, Target target)
      : Route(milliseconds(200)), node_(context, std::move(target), milliseconds(200)) {}

  asio::awaitable<std::vector<Node*>> all(Call) override {
    co_return std::vector<Node*>{&node_};
  }
  asio::awaitable<unsigned> replicas_of(Node&, Call) override { co_return 1; }

 private:
  asio::awaitable<Node*> node_for(const LockName&, Call) override { co_return &node_; }

  Node node_;
};

// No replica acknowledges the first grant, and the reply to its release does not come. If
// that release arrives late, it must not free the grant of the next request.
TEST_F(RedisStores, a_grant_after_a_release_without_a_reply_has_a_greater_fence) {
  const auto path = temporary_.file("socket");
  PeerServer server(
      [](const Peer& peer) {
        if (!peer.read_until("\r\n")) return;
        peer.send("*4\r\n$7\r\ngranted\r\n$4\r\n4711\r\n:0\r\n$0\r\n\r\n:0\r\n");
        peer.read_all();
      },
      path);
  Target target;
  target.path = path;
  Replicated route(context_, target);
  RedisClaimant claimant(context_, route, brief_claim());
  Wakeup wakeup(context_);
  EXPECT_THROW(result_of(context_, claimant.ask(Queue::stay_out, wakeup)), Failure);
  const auto sent_before = server.received().size();

  EXPECT_THROW(result_of(context_, claimant.ask(Queue::stay_out, wakeup)), Failure);

  const auto request = server.received().substr(sent_before);
  EXPECT_NE(request.find("$1\r\n0\r\n$4\r\n4711\r\n*3\r\n$4\r\nWAIT\r\n"),
            std::string::npos)
      << request;
}

TEST_F(RedisStores, a_request_for_a_greater_fence_raises_that_of_the_lease) {
  auto& old = contender();
  const auto fence = old.granted().fence;
  auto& repeated = contender(old.claim);
  repeated.claim.fence_floor = fence;

  const auto raised = repeated.granted().fence;

  EXPECT_GT(raised, fence);
  EXPECT_EQ(repeated.granted().fence, raised);
  EXPECT_EQ(repeated.inspect().holders.at(0).fence, raised);
  EXPECT_EQ(old.release(exit_with(0)), Release::taken_over);
  EXPECT_EQ(repeated.inspect().holders.at(0).fence, raised);
  EXPECT_EQ(repeated.release(exit_with(0)), Release::released);
  EXPECT_GT(contender().granted().fence, raised);
}

// Several holders

TEST_F(RedisStores, the_leases_of_readers_are_set_up_again_one_by_one) {
  for (const bool wiped : {true, false}) {
    auto& first = holder(shared());
    auto& second = holder(shared());
    auto& third = holder(shared());
    if (wiped) {
      world_.wipe_out();
    } else {
      delete_lock();
    }

    EXPECT_TRUE(reclaims(second));
    EXPECT_TRUE(reclaims(third));
    EXPECT_TRUE(reclaims(first));

    const auto info = contender().inspect();
    EXPECT_EQ(info.mode, Mode::shared);
    ASSERT_EQ(info.holders.size(), 3u);
    EXPECT_EQ(info.holders[0].fence, first.grant.fence);
    EXPECT_EQ(info.holders[2].fence, third.grant.fence);
    EXPECT_FALSE(info.last_run);
    world_.wipe_out();
  }
}

TEST_F(RedisStores, the_leases_of_slots_are_set_up_again_one_by_one) {
  auto& first = holder(slot(3));
  auto& second = holder(slot(3));
  world_.wipe_out();

  EXPECT_TRUE(reclaims(second));
  EXPECT_TRUE(reclaims(first));

  const auto info = contender().inspect();
  EXPECT_EQ(info.slots, 3u);
  ASSERT_EQ(info.holders.size(), 2u);
  EXPECT_EQ(info.holders[0].slot, 0u);
  EXPECT_EQ(info.holders[1].slot, 1u);
  EXPECT_EQ(slot(3).granted().slot, 2u);
  EXPECT_TRUE(slot(3).is_busy());
}

TEST_F(RedisStores, the_fence_after_several_leases_were_set_up_again_is_the_greatest) {
  auto& first = holder(shared());
  set_clock_ahead();
  auto& second = holder(shared());
  world_.wipe_out();
  ASSERT_TRUE(reclaims(second));
  ASSERT_TRUE(reclaims(first));

  EXPECT_GT(shared().granted().fence, second.grant.fence);
}

TEST_F(RedisStores, after_a_grant_to_a_newcomer_nothing_is_set_up_again) {
  auto& first = holder(shared());
  auto& second = holder(shared());
  world_.wipe_out();
  ASSERT_TRUE(reclaims(first));
  shared().granted();

  EXPECT_FALSE(renews(second));
  EXPECT_EQ(second.witness.lost, Loss::taken_over);
  EXPECT_TRUE(renews(first));
}

TEST_F(RedisStores, a_slot_that_was_granted_to_a_newcomer_is_not_set_up_again) {
  auto& first = holder(slot(2));
  auto& second = holder(slot(2));
  world_.wipe_out();
  auto& newcomer = slot(2);
  EXPECT_EQ(newcomer.granted().slot, 0u);

  EXPECT_FALSE(renews(first));
  EXPECT_FALSE(renews(second));
  EXPECT_EQ(contender().inspect().holders.size(), 1u);
}

// Two holders that exclude each other: one from before the data were deleted, one from
// after that.
TEST_F(RedisStores, only_compatible_leases_are_set_up_again) {
  auto free_slot = [this](unsigned slots) -> Contender& {
    slot(slots).granted();
    return slot(slots);
  };
  auto early = [this](Contender& contender) -> Holder& {
    auto& made = holder(contender);
    world_.wipe_out();
    return made;
  };
  const auto assert_second_is_refused = [&](Holder& first, Holder& second) {
    world_.wipe_out();
    ASSERT_TRUE(reclaims(first));
    EXPECT_FALSE(renews(second));
    EXPECT_EQ(second.witness.lost, Loss::taken_over);
    EXPECT_TRUE(renews(first));
    world_.wipe_out();
  };

  auto& writer = early(contender());
  assert_second_is_refused(writer, holder(shared()));
  auto& reader = early(shared());
  assert_second_is_refused(reader, holder(contender()));
  auto& same_slot = early(slot(2));
  assert_second_is_refused(same_slot, holder(slot(2)));
  auto& fewer_slots = early(slot(2));
  assert_second_is_refused(fewer_slots, holder(free_slot(3)));
  auto& one = early(contender());
  assert_second_is_refused(one, holder(contender()));
}

TEST_F(RedisStores, a_holder_without_reclaim_is_lost_while_others_are_set_up_again) {
  const auto modest = [this]() -> Holder& {
    auto& reader = shared();
    reader.claim.reclaim = false;
    return holder(reader);
  };
  auto& older = modest();
  auto& first = holder(shared());
  auto& younger = modest();
  auto& youngest = modest();
  world_.wipe_out();
  ASSERT_TRUE(reclaims(first));

  for (auto* lost : {&older, &younger}) {
    EXPECT_FALSE(renews(*lost));
    EXPECT_EQ(lost->witness.lost, Loss::gone);
  }
  delete_lock();
  ASSERT_TRUE(reclaims(first));
  EXPECT_FALSE(renews(youngest));
  EXPECT_EQ(youngest.witness.lost, Loss::gone);
}

}  // namespace
}  // namespace dlock::redis
