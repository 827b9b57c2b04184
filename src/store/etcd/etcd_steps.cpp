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

std::string key_of(const StepContext& step_context, const QueueEntry& entry) {
  return queue_prefix(step_context.lock) + entry.id;
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

PutRequest entry_put(const StepContext& step_context, const QueueEntry& entry) {
  return put(key_of(step_context, entry), text_of(entry), entry.lease);
}

Compare is(std::string key, Target target, std::int64_t number) {
  Compare compare;
  compare.key = std::move(key);
  compare.target = target;
  compare.number = number;
  return compare;
}

// The entry has not changed, or still does not exist.
Compare is_as_it_was(const StepContext& step_context, const QueueEntry& entry) {
  return is(key_of(step_context, entry), Target::mod_revision, entry.modified);
}

Compare of_all(std::string prefix, Target target, Compare::Result result,
               std::int64_t number) {
  auto compare = is(prefix, target, number);
  compare.range_end = end_of_prefix(prefix);
  compare.result = result;
  return compare;
}

// No key was created or changed since; deletions only make room.
Compare is_untouched_since(std::string prefix, std::int64_t revision) {
  return of_all(std::move(prefix), Target::mod_revision, Compare::Result::less,
                revision + 1);
}

void add_look(std::vector<Operation>& operations, const LockName& lock) {
  operations.emplace_back(all_below(queue_prefix(lock)));
  operations.emplace_back(all_below(runs_prefix(lock)));
}

// Writes that this entry holds, and the record that remains if it vanishes.
void add_holder(TxnRequest& txn, const StepContext& step_context, const QueueEntry& own) {
  const auto until = step_context.now + std::chrono::seconds(own.ttl);
  txn.then.emplace_back(entry_put(step_context, own));
  txn.then.emplace_back(put(now_key(step_context.lock, own.id), open_run_text(own, until),
                            step_context.day_lease));
}

void add_past_run(std::vector<Operation>& operations, const StepContext& step_context,
                  const QueueEntry& holder, const RunInfo& run, bool is_shared) {
  operations.emplace_back(put(past_key(step_context.lock, holder.fence()),
                              past_run_text(run, is_shared), step_context.day_lease));
}

// A holder that notices when its lease is broken, and releases the lock itself. The lease
// of any other holder is revoked.
bool is_told_of_loss(const QueueEntry& holder) {
  return !holder.foreign && holder.attached && holder.standing != Standing::ended;
}

// The moment at which the lease of this holder ends, even if the clock was set back.
rules::Moment end_for(const QueueEntry& holder, WallTime now) {
  return moment_of(std::max(now, holder.since));
}

void add_loser(TxnRequest& txn, const StepContext& step_context, const QueueEntry& holder,
               const Taker& taker) {
  txn.conditions.push_back(is_as_it_was(step_context, holder));
  if (is_told_of_loss(holder) && !taker.forced) {
    auto told = holder;
    told.standing = Standing::broken;
    told.taken_by = taker;
    txn.then.emplace_back(entry_put(step_context, told));
    return;
  }
  txn.then.emplace_back(deletion(key_of(step_context, holder)));
  // For watchers. It is useful only as long as the lease would have lasted; a foreign
  // entry may have no lease.
  txn.then.emplace_back(put(taken_key(step_context.lock, holder.id), taken_text(taker),
                            holder.lease != 0 ? holder.lease : step_context.day_lease));
  if (holder.foreign || holder.standing == Standing::ended) return;
  txn.then.emplace_back(deletion(now_key(step_context.lock, holder.id)));
  const auto end = end_for(holder, step_context.now);
  add_past_run(txn.then, step_context, holder,
               holder.attached ? rules::forced_run(as_holder(holder), taker, end)
                               : rules::lease_by_hand(as_holder(holder), end),
               false);
}

void add_rivals(TxnRequest& txn, const StepContext& step_context, const QueueEntry& own,
                const Decision& decision) {
  for (const auto& waiter : decision.give_way) {
    txn.conditions.push_back(is_as_it_was(step_context, waiter));
    txn.then.emplace_back(deletion(key_of(step_context, waiter)));
    // With the waiter's lease: only the waiter reads it.
    txn.then.emplace_back(put(told_key(step_context.lock, waiter.id),
                              told_text({own.host, own.pid}), waiter.lease));
  }
  if (!decision.give_way.empty()) {
    txn.then.emplace_back(
        put(superseded_key(step_context.lock), "", step_context.day_lease));
  }
  for (const auto& holder : decision.lose) {
    add_loser(txn, step_context, holder, own_taker(true));
  }
}

// The conditions for a claim that depends on more than its own entry.
void add_guards(TxnRequest& txn, const StepContext& step_context,
                const LockSnapshot& snapshot, const Claim& claim) {
  txn.conditions.push_back(
      is_untouched_since(queue_prefix(step_context.lock), snapshot.revision));
  // A whole run may have started and ended.
  if (!claim.dedupe) return;
  txn.conditions.push_back(
      is_untouched_since(runs_prefix(step_context.lock), snapshot.revision));
}

const RangeResult& range_at(const TxnResult& result, std::size_t index) {
  const auto* range = index < result.results.size()
                          ? std::get_if<RangeResult>(&result.results[index])
                          : nullptr;
  if (range != nullptr) return *range;
  throw Failure::unreachable("etcd sent an unexpected reply");
}

}  // namespace

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

TxnRequest enter_first(const StepContext& step_context, const QueueEntry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  txn.conditions.push_back(of_all(queue_prefix(step_context.lock),
                                  Target::create_revision, Compare::Result::greater,
                                  own.created - 1));
  // No other claim has passed it, not even one whose run has vanished.
  auto none = is(past_key(step_context.lock, own.fence()), Target::create_revision, 0);
  none.range_end = end_of_prefix(past_prefix(step_context.lock));
  txn.conditions.push_back(std::move(none));
  txn.conditions.push_back(of_all(now_prefix(step_context.lock), Target::create_revision,
                                  Compare::Result::less, own.created));
  add_holder(txn, step_context, own);
  add_look(txn.then, step_context.lock);
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest enter(const StepContext& step_context, const LockSnapshot& snapshot,
                 const Claim& claim, const QueueEntry& own, const Decision& decision) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  // The outer run that lets it pass a waiting writer must still exist: no guard detects a
  // deleted key.
  if (const auto* outer = outer_reader(snapshot, claim)) {
    txn.conditions.push_back(
        is(key_of(step_context, *outer), Target::create_revision, outer->created));
  }
  const bool waited = own.created != 0;
  // Its turn cannot pass, but two claims must not choose the same slot or fence.
  const bool draws = decision.given_fence.number != 0;
  if (!waited || claim.slots > 1 || claim.dedupe || draws)
    add_guards(txn, step_context, snapshot, claim);
  // Nor may one that had its turn as well have ended since, with a greater fence.
  const auto untouched = [&](std::string folder) {
    txn.conditions.push_back(is_untouched_since(std::move(folder), snapshot.revision));
  };
  if (waited) untouched(past_prefix(step_context.lock));
  if (draws) untouched(now_prefix(step_context.lock));
  add_rivals(txn, step_context, own, decision);
  add_holder(txn, step_context, own);
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest join(const StepContext& step_context, const LockSnapshot& snapshot,
                const Claim& claim, const QueueEntry& own, const Decision& decision) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  const bool goes_by_others = claim.max_queue || claim.dedupe || claim.supersedes ||
                              claim.replaces || claim.slots > 1;
  if (goes_by_others) add_guards(txn, step_context, snapshot, claim);
  add_rivals(txn, step_context, own, decision);
  txn.then.emplace_back(entry_put(step_context, own));
  add_look(txn.then, step_context.lock);
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest take_away(const StepContext& step_context,
                     const std::vector<QueueEntry>& holders, const Taker& taker) {
  TxnRequest txn;
  for (const auto& holder : holders) add_loser(txn, step_context, holder, taker);
  add_look(txn.then, step_context.lock);
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest rewrite(const StepContext& step_context, const QueueEntry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  if (own.holds()) {
    add_holder(txn, step_context, own);
  } else {
    txn.then.emplace_back(entry_put(step_context, own));
  }
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest set_up_again(const StepContext& step_context, const LockSnapshot& snapshot,
                        const QueueEntry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  txn.conditions.push_back(
      is_untouched_since(queue_prefix(step_context.lock), snapshot.revision));
  txn.conditions.push_back(
      is_untouched_since(runs_prefix(step_context.lock), snapshot.revision));
  add_holder(txn, step_context, own);
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

TxnRequest give_back(const StepContext& step_context, const QueueEntry& own,
                     const Ending& ending) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(step_context, own));
  if (ending.kept_on != 0) {
    auto kept = own;
    kept.standing = Standing::ended;
    kept.lease = ending.kept_on;
    txn.then.emplace_back(entry_put(step_context, kept));
  } else {
    txn.then.emplace_back(deletion(key_of(step_context, own)));
  }
  if (own.holds()) txn.then.emplace_back(deletion(now_key(step_context.lock, own.id)));
  if (ending.end) {
    add_past_run(
        txn.then, step_context, own,
        rules::ended_run(as_holder(own), *ending.end, moment_of(step_context.now)),
        ending.end->is_shared);
  } else if (own.holds() && !own.attached) {
    const auto end = end_for(own, step_context.now);
    add_past_run(txn.then, step_context, own, rules::lease_by_hand(as_holder(own), end),
                 false);
  }
  auto runs = all_below(runs_prefix(step_context.lock));
  runs.keys_only = true;
  runs.limit = 1;
  txn.then.emplace_back(std::move(runs));
  add_look(txn.otherwise, step_context.lock);
  return txn;
}

std::int64_t runs_kept_after(const TxnResult& given_back) {
  return range_at(given_back, given_back.results.size() - 1).count;
}

TxnRequest record_lost(const StepContext& step_context, const Runs& known,
                       const QueueEntry& own, const RunEnd& end) {
  TxnRequest txn;
  auto run = rules::ended_run(as_holder(own), end, moment_of(step_context.now));
  for (const auto& past : known.past) keep_forced_reason(past.info, run);
  txn.then.emplace_back(deletion(now_key(step_context.lock, own.id)));
  add_past_run(txn.then, step_context, own, run, false);
  return txn;
}

TxnRequest forget(const std::vector<std::string>& keys) {
  TxnRequest txn;
  for (const auto& key : keys) {
    if (txn.then.size() == most_in_one_step) break;
    txn.then.emplace_back(deletion(key));
  }
  return txn;
}

TxnRequest count_refused(const StepContext& step_context) {
  TxnRequest txn;
  txn.then.emplace_back(put(refused_key(step_context.lock), "", step_context.day_lease));
  return txn;
}

}  // namespace dlock::etcd
