#include "store/etcd/etcd_steps.hpp"

#include <chrono>
#include <utility>

#include "lock/history.hpp"
#include "rules/state.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

namespace {

using Target = Compare::Target;

RangeRequest all_below(std::string prefix) {
  RangeRequest range;
  range.range_end = end_of_prefix(prefix);
  range.key = std::move(prefix);
  return range;
}

PutRequest put(std::string key, std::string value, std::int64_t lease) {
  PutRequest request;
  request.key = std::move(key);
  request.value = std::move(value);
  request.lease = lease;
  return request;
}

DeleteRequest deletion(std::string key) {
  DeleteRequest request;
  request.key = std::move(key);
  return request;
}

Compare is(std::string key, Target target, std::int64_t number) {
  Compare compare;
  compare.key = std::move(key);
  compare.target = target;
  compare.number = number;
  return compare;
}

Compare of_all(std::string prefix, Target target, Compare::Result result,
               std::int64_t number) {
  auto compare = is(prefix, target, number);
  compare.range_end = end_of_prefix(prefix);
  compare.result = result;
  return compare;
}

void add_look(std::vector<Operation>& operations, const LockName& lock) {
  operations.emplace_back(all_below(queue_prefix(lock)));
  operations.emplace_back(all_below(runs_prefix(lock)));
}

// The moment at which the lease of this holder ends, even if the clock was set back.
rules::Moment end_for(const QueueEntry& holder, WallTime now) {
  return moment_of(std::max(now, holder.since));
}

// A transaction as it is made.
class StepMaker {
 public:
  explicit StepMaker(const StepContext& at) : at_(at) {}

  // --- The conditions ---

  void require(Compare condition) { txn_.conditions.push_back(std::move(condition)); }

  // The entry has not changed, or still does not exist.
  void require_unchanged(const QueueEntry& entry) {
    require(is(key_of(entry), Target::mod_revision, entry.modified));
  }

  // No key was created or changed since; deletions only make room.
  void require_untouched(std::string prefix, std::int64_t since) {
    require(of_all(std::move(prefix), Target::mod_revision, Compare::Result::less,
                   since + 1));
  }

  // For a claim that depends on more than its own entry.
  void guard(const LockSnapshot& snapshot, bool with_runs) {
    require_untouched(queue_prefix(at_.lock), snapshot.revision);
    // A whole run may have started and ended.
    if (with_runs) require_untouched(runs_prefix(at_.lock), snapshot.revision);
  }

  // --- What is written ---

  std::string key_of(const QueueEntry& entry) const {
    return queue_prefix(at_.lock) + entry.id;
  }
  void then(Operation operation) { txn_.then.push_back(std::move(operation)); }
  void write(const QueueEntry& entry) {
    then(put(key_of(entry), text_of(entry), entry.lease));
  }
  void remove(std::string key) { then(deletion(std::move(key))); }
  // For as long as there is a history.
  void keep(std::string key, std::string value) {
    then(put(std::move(key), std::move(value), at_.day_lease));
  }

  // That this entry holds, and the record that remains if it vanishes.
  void write_holder(const QueueEntry& own) {
    const auto until = at_.now + std::chrono::seconds(own.ttl);
    write(own);
    keep(now_key(at_.lock, own.id), open_run_text(own, until));
  }

  void write_past_run(const QueueEntry& holder, const RunInfo& run, bool is_shared) {
    keep(past_key(at_.lock, holder.fence()), past_run_text(run, is_shared));
  }

  void take_from(const QueueEntry& holder, const Taker& taker) {
    require_unchanged(holder);
    // A holder that notices when its lease is broken, and releases the lock itself. The
    // lease of any other holder is revoked.
    const bool is_told = !holder.foreign && holder.attached &&
                         holder.standing != Standing::ended && !taker.forced;
    if (is_told) {
      auto told = holder;
      told.standing = Standing::broken;
      told.taken_by = taker;
      return write(told);
    }
    remove(key_of(holder));
    // For watchers. It is useful only as long as the lease would have lasted; a foreign
    // entry may have no lease.
    then(put(taken_key(at_.lock, holder.id), taken_text(taker),
             holder.lease != 0 ? holder.lease : at_.day_lease));
    if (holder.foreign || holder.standing == Standing::ended) return;
    remove(now_key(at_.lock, holder.id));
    const auto end = end_for(holder, at_.now);
    write_past_run(holder,
                   holder.attached ? rules::forced_run(as_holder(holder), taker, end)
                                   : rules::lease_by_hand(as_holder(holder), end),
                   false);
  }

  void take_from_rivals(const QueueEntry& own, const Decision& decision) {
    for (const auto& waiter : decision.give_way) {
      require_unchanged(waiter);
      remove(key_of(waiter));
      // With the waiter's lease: only the waiter reads it.
      then(put(told_key(at_.lock, waiter.id), told_text({own.host, own.pid}),
               waiter.lease));
    }
    if (!decision.give_way.empty()) keep(superseded_key(at_.lock), "");
    for (const auto& holder : decision.lose) take_from(holder, own_taker(true));
  }

  // --- What is read ---

  void look() { add_look(txn_.then, at_.lock); }

  // Ends it: the lock is read if it has no effect.
  TxnRequest or_look() {
    add_look(txn_.otherwise, at_.lock);
    return std::move(txn_);
  }
  TxnRequest made() { return std::move(txn_); }

 private:
  const StepContext& at_;
  TxnRequest txn_;
};

}  // namespace

const RangeResult& range_at(const TxnResult& result, std::size_t index) {
  const auto* range = index < result.results.size()
                          ? std::get_if<RangeResult>(&result.results[index])
                          : nullptr;
  if (range != nullptr) return *range;
  throw Failure::unreachable("etcd sent an unexpected reply");
}

TxnRequest look_at(const LockName& lock) {
  TxnRequest txn;
  add_look(txn.then, lock);
  return txn;
}

TxnRequest glance_at(const LockName& lock) {
  TxnRequest txn;
  txn.then.emplace_back(all_below(queue_prefix(lock)));
  return txn;
}

TxnRequest written_look_at(const LockName& lock) {
  auto txn = look_at(lock);
  txn.then.emplace_back(deletion(never_key(lock)));
  return txn;
}

TxnRequest written_look_at_own(const LockName& lock, std::string_view id) {
  RangeRequest own;
  own.key = queue_prefix(lock).append(id);
  TxnRequest txn;
  txn.then.emplace_back(std::move(own));
  txn.then.emplace_back(deletion(never_key(lock)));
  return txn;
}

std::optional<QueueEntry> own_entry_from(const LockName& lock, const TxnResult& result) {
  const auto& pairs = range_at(result, 0).pairs;
  if (pairs.empty()) return std::nullopt;
  auto entry = entry_from(pairs.front(), queue_prefix(lock));
  return entry.foreign ? std::nullopt : std::optional(std::move(entry));
}

LockSnapshot snapshot_from(const LockName& lock, const TxnResult& result,
                           std::size_t first) {
  LockSnapshot snapshot;
  snapshot.revision = result.revision;
  snapshot.entries = entries_from(range_at(result, first).pairs, queue_prefix(lock));
  if (result.results.size() == 1) return snapshot;
  snapshot.runs = runs_from(range_at(result, first + 1).pairs, runs_prefix(lock));
  return snapshot;
}

TxnRequest enter_first(const StepContext& at, const QueueEntry& own) {
  StepMaker step(at);
  step.require_unchanged(own);
  step.require(of_all(queue_prefix(at.lock), Target::create_revision,
                      Compare::Result::greater, own.created - 1));
  // No other claim has passed it, not even one whose run has vanished.
  auto none = is(past_key(at.lock, own.fence()), Target::create_revision, 0);
  none.range_end = end_of_prefix(past_prefix(at.lock));
  step.require(std::move(none));
  step.require(of_all(now_prefix(at.lock), Target::create_revision, Compare::Result::less,
                      own.created));
  step.write_holder(own);
  step.look();
  return step.or_look();
}

TxnRequest enter(const StepContext& at, const LockSnapshot& snapshot, const Claim& claim,
                 const QueueEntry& own, const Decision& decision) {
  StepMaker step(at);
  step.require_unchanged(own);
  // The outer run that lets it pass a waiting writer must still exist: no guard detects a
  // deleted key.
  if (const auto* outer = outer_reader(snapshot, claim)) {
    step.require(is(step.key_of(*outer), Target::create_revision, outer->created));
  }
  const bool waited = own.created != 0;
  // Its turn cannot pass, but two claims must not choose the same slot or fence.
  const bool draws = decision.given_fence.number != 0;
  if (!waited || claim.slots > 1 || claim.dedupe || draws) {
    step.guard(snapshot, claim.dedupe.has_value());
  }
  // Nor may one that had its turn as well have ended since, with a greater fence.
  if (waited) step.require_untouched(past_prefix(at.lock), snapshot.revision);
  if (draws) step.require_untouched(now_prefix(at.lock), snapshot.revision);
  step.take_from_rivals(own, decision);
  step.write_holder(own);
  return step.or_look();
}

TxnRequest join(const StepContext& at, const LockSnapshot& snapshot, const Claim& claim,
                const QueueEntry& own, const Decision& decision) {
  StepMaker step(at);
  step.require_unchanged(own);
  const bool goes_by_others = claim.max_queue || claim.dedupe || claim.supersedes ||
                              claim.replaces || claim.slots > 1;
  if (goes_by_others) step.guard(snapshot, claim.dedupe.has_value());
  step.take_from_rivals(own, decision);
  step.write(own);
  step.look();
  return step.or_look();
}

TxnRequest take_away(const StepContext& at, const std::vector<QueueEntry>& holders,
                     const Taker& taker) {
  StepMaker step(at);
  for (const auto& holder : holders) step.take_from(holder, taker);
  step.look();
  return step.or_look();
}

TxnRequest rewrite(const StepContext& at, const QueueEntry& own) {
  StepMaker step(at);
  step.require_unchanged(own);
  own.holds() ? step.write_holder(own) : step.write(own);
  return step.or_look();
}

TxnRequest set_up_again(const StepContext& at, const LockSnapshot& snapshot,
                        const QueueEntry& own) {
  StepMaker step(at);
  step.require_unchanged(own);
  step.guard(snapshot, true);
  step.write_holder(own);
  return step.or_look();
}

TxnRequest give_back(const StepContext& at, const QueueEntry& own, const Ending& ending) {
  StepMaker step(at);
  step.require_unchanged(own);
  if (ending.kept_on != 0) {
    auto kept = own;
    kept.standing = Standing::ended;
    kept.lease = ending.kept_on;
    step.write(kept);
  } else {
    step.remove(step.key_of(own));
  }
  if (own.holds()) step.remove(now_key(at.lock, own.id));
  if (ending.end) {
    const auto run = rules::ended_run(as_holder(own), *ending.end, moment_of(at.now));
    step.write_past_run(own, run, ending.end->is_shared);
  } else if (own.holds() && !own.attached) {
    const auto run = rules::lease_by_hand(as_holder(own), end_for(own, at.now));
    step.write_past_run(own, run, false);
  }
  auto runs = all_below(runs_prefix(at.lock));
  runs.keys_only = true;
  runs.limit = 1;
  step.then(std::move(runs));
  return step.or_look();
}

std::int64_t runs_kept_after(const TxnResult& given_back) {
  return range_at(given_back, given_back.results.size() - 1).count;
}

TxnRequest record_lost(const StepContext& at, const Runs& known, const QueueEntry& own,
                       const RunEnd& end) {
  StepMaker step(at);
  auto run = rules::ended_run(as_holder(own), end, moment_of(at.now));
  for (const auto& past : known.past) keep_forced_reason(past.info, run);
  step.remove(now_key(at.lock, own.id));
  step.write_past_run(own, run, false);
  return step.made();
}

TxnRequest forget(const std::vector<std::string>& keys) {
  TxnRequest txn;
  for (const auto& key : keys) {
    if (txn.then.size() == most_in_one_step) break;
    txn.then.emplace_back(deletion(key));
  }
  return txn;
}

TxnRequest count_refused(const StepContext& at) {
  StepMaker step(at);
  step.keep(refused_key(at.lock), "");
  return step.made();
}

}  // namespace dlock::etcd
