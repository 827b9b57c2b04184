// The granting rules: who is granted the lock, who is promised it, who is woken.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "record/states.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/state.hpp"
#include "rules/watches.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/lock_by_hand.hpp"
#include "tests/unit/rules_scenes.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Sessions = std::vector<Session>;

[[maybe_unused]] const bool rules_scenes = add_rules_scenes("Rules", R"(
# A free lock, a held lock, fences.
a holder that asks again changes nothing:
  1 takes; 2 queues; pass 10s; 1 takes unchanged
a busy claim that stays out of the queue changes nothing:
  1 takes; 2 asks busy unchanged
an attached grant has no deadline:
  1 takes lasts=forever
a fence is the wall clock in microseconds:
  1 takes fence=now
a fence is one more than the last if the wall clock has not advanced:
  1 takes; 1 leaves; 2 takes fence=1+1
a fence is one more than the last if the wall clock stepped back:
  1 takes; 1 leaves; pass(wall) -24h; 2 takes fence=1+1
a fence follows the wall clock if it has advanced:
  1 takes; 1 leaves; pass 1h; 2 takes fence=now

# The queue.
a release wakes only the first waiter:
  1 takes; 2 queues; 3 queues; 1 leaves wake=2
a release without waiters wakes no one:
  1 takes; 1 leaves wake=
a waiter that is granted the lock wakes no one else:
  1 takes; 2 queues; 3 queues; 1 leaves; 2 takes wake=

# Promises that lapse.
a promise keeps others out for 3 seconds:
  1 takes; 2 queues; 3 queues; 1 leaves; pass 3s-1ns; 3 is_busy
after 3 seconds a promise passes to the next waiter:
  1 takes; 2 queues; 3 queues; 1 leaves; pass 3s; 3 takes
any claim that asks passes a lapsed promise on:
  1 takes; 2 queues; 3 queues; 1 leaves; pass 3s; 4 asks busy promised=3 wake=3
a promise can be taken up until it lapses:
  1 takes; 2 queues; 1 leaves; pass 3s-1ns; 2 takes
a late waiter still goes before those behind it:
  1 takes; 2 queues; 3 queues; 1 leaves; pass 4s; 2 takes
a waiter that was passed over has its place back once it asks again:
  1 takes; 2 queues; 3 queues; 4 queues; 1 leaves; pass 3s; 3 takes; 2 queues 1; 3 leaves promised=2
a waiter that was passed over gets no promise until it asks again:
  1 takes; 2 queues; 3 queues; 4 queues; 1 leaves; pass 3s; 3 takes; 3 leaves promised=4
a parked waiter is passed over until it is back and keeps its place:
  1 takes; 2 queues; 3 queues; 4 queues; 2 parks(60s); 1 leaves promised=3; 3 takes; 2 queues 1
  ; 3 leaves promised=2
a lock is free for the first to ask if all waiters are parked:
  1 takes; 2 queues; 2 parks(60s); 3 queues; 3 parks(60s); 1 leaves promised=; 3 takes
a newcomer is granted a lock whose promises all lapsed:
  1 takes; 2 queues; 1 leaves; pass 3s; 3 takes
# The clock that says so was set back.
a promise that ends more than 3 seconds ahead does not count:
  1 takes; 2 queues; 3 queues; 1 leaves promise=3000; pass(boot) -1ms; 3 takes
the promise after one that lapsed holds for half a second:
  1 takes; 2 queues; 3 queues; 4 queues; 1 leaves; pass 3s; 4 is_busy; pass 500ms-1ns; 4 is_busy
  ; pass 1ms; 4 takes
a waiter passed over long ago does not shorten later promises:
  1 takes; 2 queues; 3 queues; 4 queues; 1 leaves; pass 3s; 3 takes; 3 leaves promised=4 promise=3000

# Waiters that are known to be stopped.
stopped waiters are passed over at once:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 2 stops; 3 stops; 1 leaves promised=4 promise=3000
a stopped waiter is woken too so that it asks when it continues:
  1 takes; 2 queues; 3 queues; 2 stops; 1 leaves wake=2,3
a stopped waiter has its place back once it continues:
  1 takes; 2 queues; 3 queues; 4 queues; 2 stops; 1 leaves; 3 takes; 2 continues; 2 queues 1
  ; 3 leaves promised=2
a stopped waiter with no one behind it is promised the lock:
  1 takes; 2 queues; 2 stops; 1 leaves promised=2
a stopped waiter keeps its place until the lock is free:
  1 takes; 2 queues; 3 queues; 2 stops; 3 asks; 2 continues; 1 leaves promised=2
the lock of a dead holder goes past stopped waiters to the one that asks:
  1 takes; 2 queues; 3 queues; 4 queues; 2 stops; 3 stops; 1 dies; 4 takes

# Death.
a dead waiter that was promised the lock is passed over at once:
  1 takes; 2 queues; 3 queues; 1 leaves; 2 dies; 3 takes
a dead waiter that was promised the lock is removed:
  1 takes; 2 queues; 1 leaves; 2 dies; 3 asks dead=2 waiters=
a newcomer is granted a lock promised to a dead waiter:
  1 takes; 2 queues; 1 leaves; 2 dies; 3 takes
a release passes over dead waiters in front:
  1 takes; 2 queues; 3 queues; 4 queues; 2 dies; 3 dies; 1 leaves promised=4 dead=2,3
a dead waiter in the middle is passed over when its turn comes:
  1 takes; 2 queues; 3 queues; 4 queues; 3 dies; 1 leaves; 2 takes; 2 leaves promised=4
a dead predecessor is removed when the one behind it asks:
  1 takes; 2 queues; 3 queues; 4 queues; 3 dies; 4 queues 2 dead=3
all dead predecessors in a row are removed:
  1 takes; 2 queues; 3 queues; 4 queues; 2 dies; 3 dies; 4 queues 1 waiters=4
a dead waiter that was passed over is removed:
  1 takes; 2 queues; 1 leaves; pass 3s; 3 takes; 2 dies; 3 leaves; 4 asks waiters=
a dead writer in the queue does not keep a reader out:
  1(shared) takes; 2 queues; 2 dies; 3(shared) takes
the lock of a dead holder is free:
  1 takes; 1 dies; 2 takes
the lock of a dead holder goes to the first waiter:
  1 takes; 2 queues; 3 queues; 1 dies; 3 asks promised=2 wake=2
the first waiter is not woken if it asks itself:
  1 takes; 2 queues; 1 dies; 2 takes wake=
the lock of a dead holder is promised by any release:
  1 takes; 2 queues; 1 dies; 9 leaves promised=2
a dead holder is reported so that its socket is removed:
  1 takes; 1 dies; 2 asks dead=1
an expired detached lease leaves no socket to remove:
  1(detached) takes; pass 30s; 2 asks dead=
a dead holder whose command was noted is a vanished run:
  1 takes; 1 starts; 1 dies; 2 asks vanished=vanished; lock last=vanished fence=1
a dead holder that ran nothing is not a run:
  1 takes; 1 dies; 2 asks vanished=none; lock last=none

# Slots, readers, outer runs.
another number of slots is accepted when only the dead are left:
  1(slots=2) takes; 2(slots=2) takes; 3(slots=2) queues; 1 dies; 2 dies; 3 dies; 4(slots=3) takes
another number of slots is accepted when a passed over waiter is dead:
  1 takes; 2 queues; 1 leaves; pass 3s; 3 takes; 2 dies; 3 leaves; 4(slots=3) takes
the first waiter is woken when a slot has a new holder:
  1(slots=2) takes; 2(slots=2) takes; 3(slots=2) queues; 4(slots=2) queues; 1 leaves; 3 takes wake=4
waiting readers are promised the lock together:
  1 takes; 2(shared) queues; 3(shared) queues; 4(shared) queues; 1 leaves wake=2,3,4
a writer is woken when a reader overtakes it:
  1(shared) takes; 2 queues; 3(shared, inside=1) takes wake=2

# Release.
a release by another claim changes nothing:
  1 takes; 2 queues; 3 ends(code=1) not_ours unchanged
a waiter that releases passes its promise on:
  1 takes; 2 queues; 3 queues; 1 leaves; 2 leaves promised=3 wake=3
a run that reported its end did not vanish:
  1 takes; 1 starts; 1 ends vanished=none
a run that ends is the last even if another vanished meanwhile:
  1(slots=2) takes; 2(slots=2) takes; 2 starts; 2 dies; 1 ends; lock last=ran fence=1

# Leases that expire.
a detached lease holds until it expires:
  1(detached, ttl=30s) takes; pass 30s-1ns; 2 is_busy
a detached lease expires:
  1(detached, ttl=30s) takes; pass 30s; 2 takes
a detached grant says until when it holds:
  1(detached, ttl=30s) takes lasts=30000
a dead waiter for a detached lease is passed over:
  1 takes; 2(detached) queues; 3 queues; 2 dies; 1 leaves promised=3
a repeated claim renews its detached lease:
  1(detached, ttl=30s) takes; pass 20s; 1 takes lasts=30000 ends_in=30000
a renewal extends a detached lease to its ttl from now:
  1(detached, ttl=30s) takes; pass 20s; 1 renews(60s) confirmed ends_in=60000
a renewal does not make an attached lease expire:
  1 takes; 1 renews(60s) confirmed ends_in=never
a renewal that shortens a lease wakes the first waiter:
  1(detached, ttl=30s) takes; 2 queues; 3 queues; 1 renews(10s) wake=2; 1 renews(20s) wake=
the command of a waiter is not recorded:
  1 takes; 2 queues; 2 starts unchanged

# What a waiter watches, and when it asks again.
the first waiter watches the holder:
  1 takes; 2 queues; 2 watches behind=none watched=1
the first waiter watches every holder:
  1(shared) takes; 2(shared) takes; 3 queues; 3 watches watched=2
the other waiters watch only the one before them:
  1 takes; 2 queues; 3 queues; 4 queues; 4 watches behind=3 watched=0
a waiter watches the holders if all before it have to let it pass:
  1(slots=2) takes; 2(slots=2) takes; 3(slots=2, spreads) queues; 4(slots=2, spreads) queues
  ; 5(slots=2) queues; 5 watches behind=none watched=2; 4 watches behind=3
no one watches a waiter that was passed over:
  1 takes; 2 queues; 3 queues; 4 queues; 1 leaves; pass 3s; 3 takes; 4 watches behind=none watched=1
the first two waiters ask again after a second:
  1 takes; 2 queues; 3 queues; 2 watches asks_in=1000; 3 watches asks_in=1000
a waiter that was passed over does not delay those behind it:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 1 leaves; pass 3s; 3 takes; 5 watches asks_in=1000
the waiter behind a promise asks again when it lapses:
  1 takes; 2 queues; 3 queues; 1 leaves; pass 2500ms; 3 watches asks_in=500
waiters further behind a promise ask again soon after it lapses:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 1 leaves; pass 2500ms; 4 watches asks_in=510
  ; 5 watches asks_in=520
the first waiter asks again when a detached lease expires:
  1(detached, ttl=300ms) takes; 2 queues; 2 watches asks_in=300
a claim that does not queue asks again at once:
  1 takes; 2 watches asks_in=0

# What those in front are told; what they know already, they are not.
a step that promises the lock tells the one that is among the next two:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 1 leaves promised=2 told=4; 2 takes told=
a step of a waiter that leaves tells the one that is among the first two:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 6 queues; 3 leaves told=4; 6 leaves told=
a step behind a promise that lapses tells the next:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 1 leaves; pass 3s; 3 takes told=5
who is parked is not in front:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 3 parks(10s) told=4; 4 watches asks_in=1000

# What is shown, and when the lock is out of use.
dead holders and waiters are not shown:
  1 takes; 2 queues; 1 dies; 2 dies; lock shown_holders=0 shown_waiters=0 free=1
a lock is out of use 30 days after its last use:
  1 takes; 1 leaves; pass 768h; lock !out_of_use; pass 1s; lock out_of_use
a lock whose holder and waiters died is eventually out of use:
  1 takes; 2 queues; 1 dies; 2 dies; pass 768h; pass 1s; lock out_of_use
a lock with a waiter is in use:
  1 takes; 2 queues; 1 dies; pass 8760h; lock !out_of_use
a held lock is never out of use:
  1 takes; pass 8760h; lock !out_of_use
a lock is out of use after its last detached lease though it was not removed:
  1(detached, ttl=792h) takes; pass 791h; lock !out_of_use; pass 1h; lock out_of_use
a promised lock is never out of use:
  1 takes; 2 queues; 1 leaves; pass 8760h; lock !out_of_use
a detached holder needs no session:
  1(detached) takes; 0 dies; 1 dies; 2 is_busy
later waiters ask again a second later for each place up to 20 seconds:
  1 takes; 2 queues; 3 queues; 4 queues; 5 queues; 6 queues; 7 queues; 8 queues; 9 queues; 10 queues
  ; 11 queues; 12 queues; 13 queues; 14 queues; 15 queues; 16 queues; 17 queues; 18 queues; 19 queues
  ; 20 queues; 21 queues; 22 queues; 23 queues; 24 queues; 4 watches asks_in=4000; 5 watches asks_in=5000
  ; 20 watches asks_in=20000; 24 watches asks_in=20000
)");

class Rules : public ::testing::Test, protected LockByHand {
 protected:
  // These expect the result that the rest of a test relies on; any other result throws
  // and fails the test.
  Grant granted(const Claim& claim) { return std::get<Grant>(ask(claim)); }
  Busy queued(const Claim& claim) { return std::get<Busy>(ask(claim, Queue::join)); }
  void released(Session who, const std::optional<RunEnd>& end = std::nullopt) {
    if (release(who, end) != Release::released) throw std::logic_error("not released");
  }

  bool is_busy(const Claim& claim) { return std::holds_alternative<Busy>(ask(claim)); }

  Holder& holder(Session who) {
    for (auto& holder : state.holders) {
      if (holder.party.session == who) return holder;
    }
    throw std::logic_error("no such holder");
  }
  Sessions promised() const {
    Sessions all;
    for (const auto& waiter : state.waiters) {
      if (waiter.promised_until) all.push_back(waiter.party.session);
    }
    return all;
  }
};

TEST_F(Rules, a_grant_is_recorded_with_its_label_command_and_time) {
  auto claim = exclusive(1);
  claim.label = "nightly";

  granted(claim);

  const auto& record = holder(1);
  EXPECT_EQ(record.label, "nightly");
  EXPECT_EQ(record.argv, claim.command);
  EXPECT_EQ(record.since, now.wall);
  EXPECT_EQ(record.granted_at, now.boot);
}

TEST_F(Rules, fences_grow_even_if_the_wall_clock_is_before_1970) {
  now.wall = WallTime(-5);
  state.last_fence.number = 7;

  EXPECT_EQ(granted(exclusive(1)).fence.number, 8u);
}

TEST_F(Rules, a_release_records_how_the_run_ended) {
  const auto fence = granted(exclusive(1)).fence;
  const auto started = now.wall;
  pass(milliseconds(1500));

  released(1, exit_with(3));

  ASSERT_TRUE(state.last_run);
  const auto& run = *state.last_run;
  EXPECT_EQ(run.fence, fence);
  EXPECT_EQ(run.started, started);
  EXPECT_EQ(run.ended, now.wall);
  EXPECT_EQ(run.duration, milliseconds(1500));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.outcome, "ran");
  EXPECT_EQ(run.host, "web1");
}

TEST_F(Rules, an_expired_detached_lease_is_recorded_as_by_hand_and_not_as_a_run) {
  granted(detached(1, seconds(30)));
  pass(seconds(40));

  granted(exclusive(2));

  EXPECT_FALSE(state.last_run);
  ASSERT_EQ(then.vanished.size(), 1u);
  EXPECT_EQ(then.vanished[0].outcome, "by hand");
  EXPECT_EQ(then.vanished[0].duration, seconds(30));
  EXPECT_EQ(then.vanished[0].ended, now.wall - seconds(10));
}

TEST_F(Rules, the_command_of_a_holder_is_recorded_with_its_start_time) {
  granted(exclusive(1));

  record_command(
      state, token_of(1),
      {77, Clock::time_point(nanoseconds(5)), Clock::time_point(nanoseconds(9))});

  EXPECT_EQ(holder(1).command, 77);
  EXPECT_EQ(holder(1).command_after, 5);
  EXPECT_EQ(holder(1).command_before, 9);
}

TEST_F(Rules, a_promise_is_given_back_if_somebody_else_on_the_host_has_got_a_slot) {
  for (const Session who : {1u, 2u, 3u}) granted(slot(who, 3));
  for (auto& holder : state.holders) holder.party.host = "web2";
  queued(spreading(4, 3));
  released(1);
  released(2);
  ASSERT_EQ(promised(), (Sessions{4}));
  granted(slot(5, 3));

  EXPECT_TRUE(is_busy(spreading(4, 3)));
  EXPECT_EQ(promised(), Sessions{});
  released(5);
  granted(spreading(4, 3));
}

TEST(Places, are_written_again_once_they_are_not_fresh) {
  const Moment now{Clock::time_point(hours(1)), seconds(1'700'000'000)};
  const milliseconds lasts(90'000);
  const auto age_after = [&](std::size_t place, milliseconds age) {
    const auto until = place_until(now.boot + lasts - age, place, lasts, now);
    return lasts - std::chrono::duration_cast<milliseconds>(until - now.boot);
  };

  EXPECT_EQ(place_until({}, 1, lasts, now), now.boot + lasts);
  EXPECT_EQ(age_after(2, milliseconds(15'000)), milliseconds(15'000));
  EXPECT_EQ(age_after(2, milliseconds(15'001)), milliseconds(0));
  EXPECT_EQ(age_after(3, milliseconds(33'000)), milliseconds(33'000));
  EXPECT_EQ(age_after(3, milliseconds(33'001)), milliseconds(0));
}

// What `status` shows

TEST_F(Rules, a_held_lock_shows_its_holder) {
  auto claim = exclusive(1);
  claim.label = "nightly";
  const auto fence = granted(claim).fence;
  const auto since = now.wall;
  pass(milliseconds(1234));

  const auto shown = info();

  ASSERT_EQ(shown.holders.size(), 1u);
  const auto& holder = shown.holders[0];
  EXPECT_EQ(holder.fence, fence);
  EXPECT_EQ(holder.host, "web1");
  EXPECT_EQ(holder.pid, 1001);
  EXPECT_EQ(holder.user, "33");
  EXPECT_EQ(holder.command, claim.command);
  EXPECT_EQ(holder.label, "nightly");
  EXPECT_EQ(holder.since, since);
  EXPECT_EQ(holder.held, milliseconds(1234));
  EXPECT_FALSE(holder.expires_in);
  EXPECT_TRUE(holder.attached);
}

TEST_F(Rules, a_lock_shows_its_waiters_in_order) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  const auto shown = info();

  ASSERT_EQ(shown.waiters.size(), 2u);
  EXPECT_EQ(shown.waiters[0].pid, 1002);
  EXPECT_EQ(shown.waiters[1].pid, 1003);
}

TEST_F(Rules, a_waiter_shows_how_long_it_has_waited) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto since = now.wall;
  pass(seconds(5));

  const auto shown = info().waiters.at(0);

  EXPECT_EQ(shown.waiting, seconds(5));
  EXPECT_EQ(shown.since, since);
}

// A queue of exclusive waiters behind a holder, whose last runs took this long.
State long_queue(std::size_t waiters, milliseconds took) {
  State state;
  state.holders.emplace_back().granted_at = Clock::time_point(seconds(1000));
  for (std::size_t i = 1; i <= waiters; ++i) {
    state.waiters.emplace_back().party.token.bytes[0] = static_cast<std::uint8_t>(i);
  }
  for (const auto longer : {0, 1000}) {
    state.runs.emplace_back().duration = took + milliseconds(longer);
  }
  return state;
}

std::optional<milliseconds> parked_at(const State& state, std::uint8_t place) {
  Token token;
  token.bytes[0] = place;
  return parked_for(state, token, {Clock::time_point(seconds(1000)), seconds(1000)});
}

TEST(SafetyNets, are_wide_where_a_check_is_dear) {
  auto state = long_queue(100, seconds(60));
  const Moment now{Clock::time_point(seconds(1000)), seconds(1000)};
  const auto checks_after = [&](int place, const SafetyNet& net) {
    Token token;
    token.bytes[0] = static_cast<std::uint8_t>(place);
    return std::chrono::duration_cast<milliseconds>(
        waits_for(state, token, now, net).ask_again - now.boot);
  };

  EXPECT_EQ(checks_after(2, {}), seconds(1));
  EXPECT_EQ(checks_after(5, {}), seconds(6));
  EXPECT_EQ(checks_after(100, {}), seconds(20));
  EXPECT_EQ(checks_after(1, wide_safety_net), milliseconds(2500));
  EXPECT_EQ(checks_after(2, wide_safety_net), milliseconds(2500));
  EXPECT_EQ(checks_after(3, wide_safety_net), seconds(5));
  EXPECT_EQ(checks_after(4, wide_safety_net), seconds(10));
  for (const int place : {5, 6, 100}) {
    EXPECT_EQ(checks_after(place, wide_safety_net), seconds(45));
  }

  // All before it may die together with the holder.
  const auto checks_at_end_in = [&](milliseconds left, int place) {
    state.holders[0].lives_until = now.boot + left;
    return checks_after(place, wide_safety_net);
  };
  EXPECT_EQ(checks_at_end_in(milliseconds(1000), 3), milliseconds(2500));
  EXPECT_EQ(checks_at_end_in(milliseconds(4000), 3), milliseconds(4060));
  EXPECT_EQ(checks_at_end_in(milliseconds(9000), 3), seconds(5));
  EXPECT_EQ(checks_at_end_in(milliseconds(4000), 5), milliseconds(5100));
  EXPECT_EQ(checks_at_end_in(seconds(30), 8), milliseconds(31'160));
  EXPECT_EQ(checks_at_end_in(seconds(4), 9), seconds(25));
  EXPECT_EQ(checks_at_end_in(seconds(60), 9), seconds(45));
  state.holders[0].lives_until.reset();

  // Then it can be parked.
  state.runs.clear();
  EXPECT_EQ(checks_after(10, wide_safety_net), seconds(5));
  EXPECT_EQ(checks_after(4, wide_safety_net), seconds(10));
}

TEST(Parking, is_for_those_whose_turn_cannot_come_soon) {
  auto state = long_queue(100, seconds(20));
  EXPECT_EQ(parked_at(state, 9), std::nullopt);
  EXPECT_EQ(parked_at(state, 10), seconds(10));
  EXPECT_EQ(parked_at(state, 13), seconds(40));
  EXPECT_EQ(parked_at(state, 100), seconds(90));

  state.slots = 3;
  EXPECT_EQ(parked_at(state, 11), std::nullopt);
  EXPECT_EQ(parked_at(state, 17), seconds(20));
}

TEST(Parking, is_not_for_a_queue_that_drains_quickly) {
  EXPECT_EQ(parked_at(long_queue(40, milliseconds(100)), 40), std::nullopt);
  EXPECT_EQ(parked_at(long_queue(100, milliseconds(50)), 100), seconds(4));
}

TEST(Parking,
     is_for_those_for_whom_a_server_has_no_room_even_if_the_queue_drains_quickly) {
  const auto state = long_queue(100, milliseconds(1));
  EXPECT_EQ(parked_at(state, 41), std::nullopt);
  EXPECT_EQ(parked_at(state, 42), seconds(4));
  EXPECT_EQ(parked_at(state, 100), milliseconds(9100));
}

TEST(Parking, lasts_longer_the_longer_the_lock_is_held_by_one) {
  auto state = long_queue(100, seconds(1));
  state.holders[0].granted_at = Clock::time_point(seconds(1000 - 60));
  EXPECT_EQ(parked_at(state, 10), seconds(4));
  state.holders[0].granted_at = Clock::time_point(seconds(1000 - 110));
  EXPECT_EQ(parked_at(state, 10), seconds(10));
  state.holders[0].granted_at = Clock::time_point(seconds(0));
  EXPECT_EQ(parked_at(state, 10), seconds(90));
}

TEST(Parking, is_not_for_one_that_has_only_parked_ones_before_it) {
  auto state = long_queue(25, seconds(20));
  for (std::size_t i = 0; i < 15; ++i) {
    state.waiters[i].parked_until = Clock::time_point(seconds(1001));
  }
  EXPECT_EQ(parked_at(state, 24), std::nullopt);
  EXPECT_EQ(parked_at(state, 25), seconds(90));

  state.waiters[0].parked_until = Clock::time_point(seconds(1000));  // that has asked
  EXPECT_EQ(parked_at(state, 23), std::nullopt);
  EXPECT_EQ(parked_at(state, 24), seconds(90));
}

TEST(Parking, counts_readers_that_enter_together_as_one) {
  auto state = long_queue(40, seconds(60));
  for (std::size_t i = 1; i < 30; ++i) state.waiters[i].mode = Mode::shared;

  EXPECT_EQ(parked_at(state, 30), std::nullopt);
  EXPECT_EQ(parked_at(state, 37), std::nullopt);
  EXPECT_NE(parked_at(state, 38), std::nullopt);
}

TEST(Parking, takes_from_the_holder_how_long_runs_are_if_none_has_ended) {
  auto state = long_queue(20, seconds(0));
  state.runs.clear();
  state.holders[0].granted_at = Clock::time_point(seconds(1000));
  EXPECT_EQ(parked_at(state, 20), std::nullopt);

  state.holders[0].granted_at = Clock::time_point(seconds(900));
  EXPECT_EQ(parked_at(state, 10), seconds(50));
}

}  // namespace
}  // namespace dlock::rules
