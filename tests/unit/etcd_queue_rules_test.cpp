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

TEST(EtcdQueue, only_the_first_waiter_has_its_turn) {
  Built snapshot;
  snapshot.wait(plain()).wait(plain());

  EXPECT_TRUE(snapshot.has_turn("a"));
  EXPECT_FALSE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, nobody_behind_a_holder_has_a_turn) {
  Built snapshot;
  snapshot.hold(plain()).wait(plain());

  EXPECT_FALSE(snapshot.has_turn("b"));
  EXPECT_TRUE(snapshot.leaves("a").has_turn("b"));
}

TEST(EtcdQueue, as_many_waiters_have_their_turn_as_slots_are_free) {
  Built snapshot;
  snapshot.hold(slot(2), 1).wait(slot(2)).wait(slot(2));

  EXPECT_TRUE(snapshot.has_turn("b"));
  EXPECT_FALSE(snapshot.has_turn("c"));
}

TEST(EtcdQueue, a_waiter_with_another_number_of_slots_has_no_turn) {
  Built snapshot;
  snapshot.hold(slot(2)).wait(slot(3));

  EXPECT_FALSE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, readers_at_the_front_have_their_turn_together) {
  Built snapshot;
  snapshot.wait(shared()).wait(shared()).wait(plain()).wait(shared());

  EXPECT_TRUE(snapshot.has_turn("a"));
  EXPECT_TRUE(snapshot.has_turn("b"));
  EXPECT_FALSE(snapshot.has_turn("c"));
  EXPECT_FALSE(snapshot.has_turn("d"));
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

TEST(EtcdQueue, a_deduplicated_waiter_gives_its_turn_to_the_next) {
  Built snapshot;
  snapshot.wait(deduped({hours(1), true})).wait(plain()).ran(77, exit_with(0));

  const auto by = snapshot.deduplicated_by("a");
  ASSERT_TRUE(by);
  EXPECT_EQ(by->fence, Fence{77});
  EXPECT_TRUE(snapshot.has_turn("b"));
}

TEST(EtcdQueue, a_run_that_failed_or_ended_earlier_counts_for_no_waiter) {
  Built snapshot;
  snapshot.ran(70, exit_with(0)).wait(deduped({hours(1), true})).ran(77, exit_with(1));

  EXPECT_FALSE(snapshot.deduplicated_by("a"));
}

TEST(EtcdQueue, a_run_that_started_before_the_window_counts_for_no_waiter) {
  Built snapshot;
  snapshot.wait(deduped({seconds(5), true})).ran(77, exit_with(0), now - seconds(6));

  EXPECT_FALSE(snapshot.deduplicated_by("a"));
}

TEST(EtcdQueue, only_a_shared_run_counts_for_a_waiter_that_joins) {
  auto end = exit_with(3);
  Built snapshot;
  snapshot.wait(deduped({{}, false, true})).ran(77, end);
  EXPECT_FALSE(snapshot.deduplicated_by("a"));
  end.is_shared = true;
  snapshot.ran(78, end);

  EXPECT_EQ(snapshot.deduplicated_by("a")->fence, Fence{78});
}

TEST(EtcdQueue, a_run_that_starts_counts_for_a_waiter_that_needs_no_success) {
  Built snapshot;
  snapshot.hold(shared()).wait(plain()).wait(deduped({hours(1)}));
  EXPECT_FALSE(snapshot.deduplicated_by("c"));
  snapshot.leaves("a").snapshot.entries.front().standing = Standing::holds;

  EXPECT_TRUE(snapshot.deduplicated_by("c"));
}

// New claims

TEST(EtcdDecision, a_free_lock_is_taken_at_once) {
  EXPECT_EQ(newcomer({}, plain(), Queue::stay_out).kind, Kind::enter);
  EXPECT_EQ(newcomer({}, shared()).kind, Kind::enter);
}

TEST(EtcdDecision, a_held_lock_is_refused_or_waited_for) {
  Built snapshot;
  snapshot.hold(plain());

  const auto out = newcomer(snapshot, plain(), Queue::stay_out);
  EXPECT_EQ(out.kind, Kind::answer);
  EXPECT_FALSE(out.counts_as_refused);
  EXPECT_TRUE(newcomer(snapshot, plain(), Queue::refuse).counts_as_refused);
  const auto in = newcomer(snapshot, plain());
  EXPECT_EQ(in.kind, Kind::join);
  EXPECT_EQ(std::get<Busy>(*in.answer).place, 1u);
}

TEST(EtcdDecision, nobody_overtakes_a_waiter_whose_turn_has_come) {
  Built snapshot;
  snapshot.wait(plain());

  EXPECT_EQ(newcomer(snapshot, plain()).kind, Kind::join);
}

TEST(EtcdDecision, the_first_free_slot_is_taken) {
  Built snapshot;
  snapshot.hold(slot(3), 0).hold(slot(3), 2);

  const auto decision = newcomer(snapshot, slot(3));
  EXPECT_EQ(decision.kind, Kind::enter);
  EXPECT_EQ(decision.slot, 1u);
}

TEST(EtcdDecision, another_number_of_slots_is_refused_with_the_number_in_use) {
  Built snapshot;
  snapshot.hold(slot(3));

  EXPECT_EQ(std::get<SlotsDiffer>(*newcomer(snapshot, plain()).answer).in_use, 3u);
}

TEST(EtcdDecision, of_two_waiters_with_different_slots_the_second_is_refused) {
  Built snapshot;
  snapshot.wait(slot(2)).wait(plain());

  EXPECT_EQ(decide(snapshot.snapshot, slot(2), "a", Queue::join, now).kind, Kind::enter);
  const auto second = decide(snapshot.snapshot, plain(), "b", Queue::join, now);
  EXPECT_TRUE(std::holds_alternative<SlotsDiffer>(*second.answer));
}

TEST(EtcdDecision, a_nested_reader_passes_a_waiting_writer) {
  Built snapshot;
  snapshot.hold(shared()).wait(plain());
  auto inner = shared();
  inner.outer_fences = {snapshot["a"].fence()};

  EXPECT_EQ(newcomer(snapshot, inner).kind, Kind::enter);
  inner.mode = Mode::exclusive;
  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(*newcomer(snapshot, inner).answer));
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

TEST(EtcdDecision, a_full_queue_is_not_joined) {
  Built snapshot;
  snapshot.hold(plain()).wait(plain());
  auto claim = plain();
  claim.max_queue = 1;

  const auto decision = newcomer(snapshot, claim);
  EXPECT_EQ(decision.kind, Kind::answer);
  EXPECT_TRUE(decision.counts_as_refused);
  claim.max_queue = 2;
  EXPECT_EQ(newcomer(snapshot, claim).kind, Kind::join);
}

TEST(EtcdDecision, a_superseding_claim_displaces_only_superseding_waiters) {
  auto superseding = plain();
  superseding.supersedes = true;
  Built snapshot;
  snapshot.hold(superseding).wait(plain()).wait(superseding);

  const auto decision = newcomer(snapshot, superseding);
  ASSERT_EQ(decision.give_way.size(), 1u);
  EXPECT_EQ(decision.give_way[0].id, "c");
  EXPECT_EQ(std::get<Busy>(*decision.answer).place, 2u);
  EXPECT_TRUE(newcomer(snapshot, superseding, Queue::stay_out).give_way.empty());
}

TEST(EtcdDecision, an_attached_holder_is_notified_before_it_is_replaced) {
  auto replacing = plain();
  replacing.replaces = true;
  Built snapshot;
  snapshot.hold(plain());

  const auto decision = newcomer(snapshot, replacing);
  EXPECT_EQ(decision.kind, Kind::join);
  EXPECT_EQ(decision.lose.size(), 1u);
  snapshot.standing(Standing::broken);
  EXPECT_TRUE(newcomer(snapshot, replacing).lose.empty());
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

TEST(EtcdDecision, a_replacing_waiter_takes_the_lock_from_the_next_holder) {
  auto replacing = plain();
  replacing.replaces = true;
  Built snapshot;
  snapshot.wait(plain()).wait(replacing);

  ASSERT_TRUE(replacer(snapshot.snapshot, "a"));
  EXPECT_TRUE(replacer(snapshot.snapshot, "a")->replaces);
  const auto decision = decide(snapshot.snapshot, plain(), "a", Queue::join, now);
  EXPECT_TRUE(decision.taken_by);
  EXPECT_FALSE(replacer(snapshot.leaves("a").snapshot, "x")) << "it is promised the lock";
}

TEST(EtcdDecision, a_superseded_waiter_learns_by_whom) {
  Built snapshot;
  snapshot.snapshot.runs.told.emplace_back("new", Superseded{"db1", 7});

  const auto decision = newcomer(snapshot, plain());
  EXPECT_EQ(std::get<Superseded>(*decision.answer).host, "db1");
}

TEST(EtcdDecision, a_run_in_progress_deduplicates_a_new_claim) {
  Built snapshot;
  snapshot.hold(plain());

  EXPECT_TRUE(std::holds_alternative<Deduplicated>(
      *newcomer(snapshot, deduped({seconds(1)})).answer));
  EXPECT_EQ(newcomer(snapshot, deduped({seconds(1), true})).kind, Kind::join);
  snapshot.standing(Standing::broken);
  EXPECT_EQ(newcomer(snapshot, deduped({seconds(1)})).kind, Kind::join);
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
