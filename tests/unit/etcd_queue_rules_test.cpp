// Who holds a lock that is a queue of entries, who waits, and how a claim is decided.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rules/state.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/etcd_client_model.hpp"

namespace dlock::etcd {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr WallTime now(seconds(1'000'000));

Claim plain() {
  Claim claim;
  claim.lock = {"dlock", "job"};
  return claim;
}
Claim shared() {
  auto claim = plain();
  claim.mode = Mode::shared;
  return claim;
}
Claim slot(unsigned slots) {
  auto claim = plain();
  claim.slots = slots;
  return claim;
}
Claim deduped(Dedupe dedupe) {
  auto claim = plain();
  claim.dedupe = dedupe;
  return claim;
}

// A queue to which entries are added one after the other: "a", "b", "c".
class Built {
 public:
  Built& wait(const Claim& claim) {
    auto entry = entry_for(claim, now);
    add(entry);
    return *this;
  }
  Built& hold(const Claim& claim, unsigned slot = 0) {
    auto entry = entry_for(claim, now);
    entry.standing = Standing::holds;
    entry.slot = slot;
    add(entry);
    return *this;
  }
  Built& foreign() {
    QueueEntry entry;
    entry.foreign = true;
    entry.attached = false;
    add(entry);
    return *this;
  }
  Built& standing(Standing standing) {
    snapshot.entries.back().standing = standing;
    return *this;
  }
  // A run with `fence` that ends now.
  Built& ran(std::uint64_t fence, const RunEnd& end, WallTime started = now) {
    PastRun past;
    auto holder = entry_for(plain(), started);
    holder.created = static_cast<std::int64_t>(fence);
    past.info = rules::ended_run(as_holder(holder), end, moment_of(now));
    past.is_shared = end.is_shared;
    past.revision = ++snapshot.revision;
    snapshot.runs.past.push_back(past);
    return *this;
  }
  Built& leaves(const std::string& id) {
    std::erase_if(snapshot.entries,
                  [&](const QueueEntry& entry) { return entry.id == id; });
    return *this;
  }

  const QueueEntry& operator[](const std::string& id) const {
    return *entry_of(snapshot, id);
  }
  // As the rules decide on the state.
  bool has_turn(const std::string& id) const { return has_its_turn(snapshot, id); }
  std::optional<RunInfo> deduplicated_by(const std::string& id) const {
    auto state = state_of(snapshot);
    const auto found = rules::answered_of(state, token_of(id));
    return found == state.answered.end() ? std::nullopt : std::optional(found->by);
  }
  WatchedKeys watched(const std::string& id) const {
    return watched_by(snapshot, (*this)[id]);
  }

  LockSnapshot snapshot;

 private:
  void add(QueueEntry entry) {
    entry.id = std::string(1, static_cast<char>('a' + count_++));
    entry.created = ++snapshot.revision;
    entry.modified = entry.created;
    snapshot.entries.push_back(std::move(entry));
  }
  int count_ = 0;
};

Decision newcomer(const Built& built, const Claim& claim, Queue queue = Queue::join) {
  return decide(built.snapshot, claim, "new", queue, now);
}
using Kind = Decision::Kind;

// Whose turn it is

TEST(EtcdQueue, a_waiter_with_another_number_of_slots_has_no_turn) {
  Built snapshot;
  snapshot.hold(slot(2)).wait(slot(3));

  EXPECT_FALSE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, a_holder_keeps_the_lock_at_any_position) {
  Built snapshot;
  snapshot.hold(shared()).wait(plain()).hold(shared()).leaves("a");

  EXPECT_FALSE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, a_foreign_entry_holds_alone_when_it_is_first) {
  Built snapshot;
  snapshot.foreign().wait(shared()).foreign();

  EXPECT_TRUE(is_holder(snapshot.snapshot, snapshot["a"]));
  EXPECT_FALSE(is_holder(snapshot.snapshot, snapshot["c"]));
  EXPECT_FALSE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, a_claim_whose_entry_is_overwritten_does_not_search_for_another_one) {
  Built snapshot;
  snapshot.hold(plain()).foreign().foreign();
  snapshot.snapshot.entries[2].id.clear();  // the key of the queue itself
  const auto decision = decide(snapshot.snapshot, plain(), "b", Queue::join, now);
  EXPECT_EQ(decision.kind, Decision::Kind::answer);
}

TEST(EtcdQueue, a_superseded_waiter_that_came_back_is_left_to_itself) {
  Built snapshot;
  snapshot.hold(plain()).wait(plain());
  snapshot.snapshot.runs.told.emplace_back("b", Superseded{"db1", 7});
  const auto decision = decide(snapshot.snapshot, plain(), "new", Queue::join, now);
  EXPECT_TRUE(decision.give_way.empty());
}

TEST(EtcdQueue, twenty_thousand_readers_are_judged_in_seconds) {
  Built snapshot;
  snapshot.hold(shared());
  const auto reader = snapshot.snapshot.entries.front();
  for (int i = 0; i < 20'000; ++i) {
    snapshot.snapshot.entries.push_back(reader);
    snapshot.snapshot.entries.back().id = "reader" + std::to_string(i);
    ++snapshot.snapshot.entries.back().created;
  }
  auto takes = plain();
  takes.replaces = true;
  const auto decision = decide(snapshot.snapshot, takes, "new", Queue::join, now);
  EXPECT_EQ(decision.lose.size(), most_in_one_step);
}

TEST(EtcdQueue, nobody_overtakes_a_foreign_waiter) {
  Built snapshot;
  snapshot.hold(shared()).foreign().wait(shared());

  EXPECT_FALSE(snapshot.has_turn("c"));
  EXPECT_EQ(newcomer(snapshot, shared()).kind, Kind::join);
}

// Runs that count for waiters

// New claims

TEST(EtcdDecision, of_two_waiters_with_different_slots_the_second_is_refused) {
  Built snapshot;
  snapshot.wait(slot(2)).wait(plain());

  EXPECT_EQ(decide(snapshot.snapshot, slot(2), "a", Queue::join, now).kind, Kind::enter);
  const auto second = decide(snapshot.snapshot, plain(), "b", Queue::join, now);
  EXPECT_TRUE(std::holds_alternative<SlotsDiffer>(*second.answer));
}

TEST(EtcdDecision, a_nested_reader_does_not_pass_etcdctl) {
  Built snapshot;
  snapshot.hold(shared()).foreign();
  auto inner = shared();
  inner.outer_fences = {snapshot["a"].fence()};

  EXPECT_NE(newcomer(snapshot, inner).kind, Kind::enter);
}

TEST(EtcdStep, a_nested_reader_passes_a_writer_only_while_the_outer_reader_holds) {
  Built snapshot;
  snapshot.hold(shared()).wait(plain());
  auto inner = shared();
  inner.outer_fences = {snapshot["a"].fence()};
  const StepContext step_context{plain().lock, now, 7};

  const auto step =
      enter(step_context, snapshot.snapshot, inner, entry_for(inner, now), {});

  const auto asks_for_outer = [&](const Compare& condition) {
    return condition.target == Compare::Target::create_revision &&
           condition.number == snapshot["a"].created && condition.range_end.empty();
  };
  EXPECT_TRUE(
      std::any_of(step.conditions.begin(), step.conditions.end(), asks_for_outer));
}

TEST(EtcdDecision, a_holder_that_cannot_be_notified_is_replaced_at_once) {
  auto replacing = plain();
  replacing.replaces = true;
  auto detached = plain();
  detached.attached = false;
  Built foreign;
  Built by_hand;
  Built kept;
  by_hand.hold(detached);
  kept.hold(plain()).standing(Standing::ended);

  for (const auto* snapshot : {&foreign.foreign(), &by_hand, &kept}) {
    const auto decision = newcomer(*snapshot, replacing);
    EXPECT_EQ(decision.kind, Kind::enter);
    EXPECT_EQ(decision.lose.size(), 1u);
  }
}

// dlock breaks no entry that it could delete, but another program may write one.
TEST(EtcdDecision, a_break_takes_the_lock_only_from_the_holders_that_it_means) {
  auto detached = slot(3);
  detached.attached = false;
  Built snapshot;
  snapshot.hold(slot(3), 0).hold(detached, 1).standing(Standing::broken);
  snapshot.hold(detached, 2);

  const auto lost_to = [&](const std::string& id) {
    return decide_on_break(snapshot.snapshot, {{snapshot[id].fence()}, false}, now).lose;
  };
  for (const std::string id : {"a", "b", "c"}) {
    const auto lost = lost_to(id);
    ASSERT_EQ(lost.size(), 1u) << id;
    EXPECT_EQ(lost[0].id, id);
  }
}

TEST(EtcdDecision, a_superseded_waiter_learns_by_whom) {
  Built snapshot;
  snapshot.snapshot.runs.told.emplace_back("new", Superseded{"db1", 7});

  const auto decision = newcomer(snapshot, plain());
  EXPECT_EQ(std::get<Superseded>(*decision.answer).host, "db1");
}

// What a waiter watches

TEST(EtcdQueue, a_waiter_watches_only_the_entry_before_it) {
  Built snapshot;
  snapshot.hold(plain()).wait(plain()).wait(plain());

  EXPECT_EQ(snapshot.watched("b"), (WatchedKeys{"a", false}));
  EXPECT_EQ(snapshot.watched("c"), (WatchedKeys{"b", false}));
}

TEST(EtcdQueue, the_first_waiter_behind_several_holders_watches_all_deletions) {
  Built snapshot;
  snapshot.hold(slot(2), 0).hold(slot(2), 1).wait(slot(2)).wait(slot(2));

  EXPECT_EQ(snapshot.watched("c"), (WatchedKeys{"", false}));
  EXPECT_EQ(snapshot.watched("d"), (WatchedKeys{"c", true}));
}

TEST(EtcdQueue, a_waiter_with_dedupe_watches_all_changes) {
  Built snapshot;
  snapshot.hold(plain()).wait(plain()).wait(deduped({hours(1)}));

  EXPECT_EQ(snapshot.watched("c"), (WatchedKeys{"", true}));
}

// Setting up a vanished lease again

TEST(EtcdQueue, a_vanished_lease_is_set_up_again_if_nobody_came) {
  Built snapshot;
  snapshot.hold(plain());
  const auto lost = snapshot["a"];
  snapshot.leaves("a");

  EXPECT_TRUE(can_be_set_up_again(snapshot.snapshot, lost));
  EXPECT_FALSE(can_be_set_up_again(Built(snapshot).wait(plain()).snapshot, lost));
  EXPECT_FALSE(can_be_set_up_again(Built(snapshot).hold(plain()).snapshot, lost));
  EXPECT_FALSE(can_be_set_up_again(Built(snapshot).foreign().snapshot, lost));
  EXPECT_FALSE(can_be_set_up_again(Built(snapshot).ran(9, exit_with(0)).snapshot, lost));
}

// A cluster that was restored from an older snapshot counts its revisions from there.
TEST(EtcdQueue, a_vanished_lease_is_not_set_up_again_after_a_run_with_a_smaller_fence) {
  Built snapshot;
  snapshot.foreign().foreign().hold(plain());
  const auto lost = snapshot["c"];
  Built restored;
  restored.ran(1, exit_with(0));
  ASSERT_GT(lost.fence(), Fence{1});

  EXPECT_FALSE(can_be_set_up_again(restored.snapshot, lost));
  OpenRun own;
  own.id = lost.id;
  own.info.fence = lost.fence();
  restored.snapshot.runs.open.push_back(own);
  EXPECT_TRUE(can_be_set_up_again(restored.snapshot, lost));
}

TEST(EtcdQueue, a_vanished_reader_does_not_return_ahead_of_a_waiting_writer) {
  Built snapshot;
  snapshot.hold(shared()).hold(shared());
  const auto lost = snapshot["b"];
  snapshot.leaves("b");

  EXPECT_TRUE(can_be_set_up_again(snapshot.snapshot, lost));
  EXPECT_FALSE(can_be_set_up_again(Built(snapshot).wait(plain()).snapshot, lost));
}

TEST(EtcdQueue, a_vanished_lease_is_set_up_again_beside_other_slots) {
  Built snapshot;
  snapshot.hold(slot(2), 1).hold(slot(2), 0);
  const auto lost = snapshot["b"];
  snapshot.leaves("b");

  EXPECT_TRUE(can_be_set_up_again(snapshot.snapshot, lost));
}

// How a lock is shown

TEST(EtcdQueue, a_lock_is_shown_with_its_holders_and_waiters) {
  Built snapshot;
  snapshot.hold(slot(3)).wait(slot(3)).foreign().ran(1, exit_with(0));
  const auto info = info_of(snapshot.snapshot, plain().lock, now);

  EXPECT_EQ(info.slots, 3u);
  EXPECT_EQ(info.free, 2u);
  EXPECT_EQ(info.holders.size(), 1u);
  EXPECT_EQ(info.waiters.size(), 2u);
  EXPECT_TRUE(info.last_run);
  EXPECT_TRUE(info.last_success);
  EXPECT_TRUE(info.known);
  EXPECT_FALSE(info_of({}, plain().lock, now).known);
}

}  // namespace
}  // namespace dlock::etcd
