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
#include "tests/contract/scenes.hpp"
#include "tests/run_end.hpp"

namespace dlock::redis {
namespace {

using std::chrono::seconds;

[[maybe_unused]] const bool redis_store_scenes = add_scenes("RedisStores", {kinds[2]}, R"(
# Losses.
a lease that was granted again is not the one that is kept:
  a(ttl=600ms) takes; server runs(DEL dlock:{job}) reply=:1/; b takes; b leaves; c(like=a) takes; a kept taken_over
a release reports that the lease was granted again:
  a(brief) takes; server runs(DEL dlock:{job}); b takes; b leaves; c(like=a) takes; a ends taken_over
a release reports that another has the lock:
  a(brief) takes; server runs(DEL dlock:{job}); b takes; a ends taken_over
a release sets up a lease again if allowed:
  a(brief) takes; server runs(DEL dlock:{job}); a ends released; last ran

# Lock delay.
a renewal stores the ttl plus lock delay and promises the ttl:
  a(brief, delay=100s) takes; a kept confirmed lasts<600ms; holder expires_in>100s
a lease that is set up again has its lock delay:
  a(brief, delay=100s) takes; server forgets; a kept again lasts<600ms; holder expires_in>100s

# Leases that the server lost.
a lease that was set up again is like any other:
  a(brief) takes; server forgets; a kept again; a kept confirmed; a takes again; a leaves released; b takes
a lease can be set up again several times:
  a(brief) takes; server forgets; a kept again; server runs(DEL dlock:{job}) reply=:1/; a kept again
  ; server forgets; a kept again; server runs(DEL dlock:{job}) reply=:1/; a kept again
a lease is not set up again after a grant that it does not know:
  a(brief) takes; server forgets; server runs(HSET dlock:{job}:s fence 5 slots 1); a kept taken_over
a lease is not set up again after a grant to a claim that it does not know:
  a(brief) takes; server forgets; server runs(HSET dlock:{job}:s fence 5 slots 1 last 5:0123456789abcdef)
  ; a kept taken_over
the fence of the next grant is greater than that of a reclaimed lease:
  server runs(HSET dlock:{job}:s fence %in_an_hour); a(brief) takes; server forgets; a kept again; a leaves
  ; b takes fence>a
the records of other runs are not removed:
  a takes; a ends(code=7); b(brief) takes; server runs(DEL dlock:{job}); b kept again; last code=7

# Leases that others were granted meanwhile.
a lock that another run holds is not set up again:
  a(brief) takes; server forgets; b takes; a kept taken_over; holder fence=b
a lock that another run held meanwhile is not set up again:
  a(brief) takes; server forgets; b takes; b leaves; a kept taken_over; c takes
a lock whose key was deleted and that another run held meanwhile is not set up again:
  a(brief) takes; server runs(DEL dlock:{job}); b takes; b leaves; a kept taken_over; c takes
# The claim that finds the lock free promises it to the waiter.
a lock that is promised to a waiter is not set up again:
  a(brief) takes; b queues 1; server runs(DEL dlock:{job}); c is_busy; a kept taken_over; b takes
a key of another program is left alone:
  a(brief) takes; server runs(SET dlock:{job} theirs PX 60000); a kept taken_over
  ; server runs(GET dlock:{job}) reply=$6/theirs/
waiters keep waiting behind a lease that is set up again:
  a(brief) takes; b queues 1; server runs(DEL dlock:{job}); a kept again; b queues 1; a leaves; b takes
a released lease is not set up again by a late request:
  a(brief) takes; server forgets; server runs(SET dlock:{job}:t:%a 1); a kept lost; b takes
a request for a greater fence raises that of the lease:
  a(brief) takes; b(like=a, floor=a) takes fence>a; b takes again; holder fence=b; a ends taken_over
  ; holder fence=b; b ends released; c takes fence>b

# Several holders.
the leases of readers are set up again one by one:
  a(brief, shared) takes; b(brief, shared) takes; c(brief, shared) takes; server forgets; b kept again
  ; c kept again; a kept again; lock shared holders=3 ascending; holder fence=a; last none
the leases of readers whose key was deleted are set up again one by one:
  a(brief, shared) takes; b(brief, shared) takes; c(brief, shared) takes; server runs(DEL dlock:{job})
  ; b kept again; c kept again; a kept again; lock shared holders=3 ascending; holder fence=a; last none
the leases of slots are set up again one by one:
  a(brief, slots=3) takes slot=0; b(brief, slots=3) takes slot=1; server forgets; b kept again; a kept again
  ; lock slots=3 holders=2 ascending; holder slot=0; c(slots=3) takes slot=2; d(slots=3) is_busy
the fence after several leases were set up again is the greatest:
  a(brief, shared) takes; server runs(HSET dlock:{job}:s fence %in_an_hour); b(brief, shared) takes
  ; server forgets; b kept again; a kept again; c(shared) takes fence>b
after a grant to a newcomer nothing is set up again:
  a(brief, shared) takes; b(brief, shared) takes; server forgets; a kept again; c(shared) takes
  ; b kept taken_over; a kept confirmed
a slot that was granted to a newcomer is not set up again:
  a(brief, slots=2) takes; b(brief, slots=2) takes; server forgets; c(slots=2) takes slot=0; a kept lost
  ; b kept lost; lock holders=1
# One from before the data were deleted, one from after that.
of a writer and a reader only the first is set up again:
  a(brief) takes; server forgets; b(brief, shared) takes; server forgets; a kept again; b kept taken_over
  ; a kept confirmed
of a reader and a writer only the first is set up again:
  a(brief, shared) takes; server forgets; b(brief) takes; server forgets; a kept again; b kept taken_over
  ; a kept confirmed
of two holders of the same slot only the first is set up again:
  a(brief, slots=2) takes; server forgets; b(brief, slots=2) takes; server forgets; a kept again
  ; b kept taken_over; a kept confirmed
of holders with other numbers of slots only the first is set up again:
  a(brief, slots=2) takes; server forgets; x(slots=3) takes; b(brief, slots=3) takes; server forgets
  ; a kept again; b kept taken_over; a kept confirmed
of two writers only the first is set up again:
  a(brief) takes; server forgets; b(brief) takes; server forgets; a kept again; b kept taken_over
  ; a kept confirmed
a holder without reclaim is lost while others are set up again:
  a(ttl=600ms, shared) takes; b(brief, shared) takes; c(ttl=600ms, shared) takes; d(ttl=600ms, shared) takes
  ; server forgets; b kept again; a kept gone; c kept gone; server runs(DEL dlock:{job}); b kept again
  ; d kept gone
)");

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

}  // namespace
}  // namespace dlock::redis
