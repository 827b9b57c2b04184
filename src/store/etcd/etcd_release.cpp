// EtcdClaimant: releasing the lease and recording the end of the run.
#include <algorithm>
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/etcd_entry.hpp"

namespace dlock::etcd {

namespace {

// How long an interrupted release may still take.
constexpr milliseconds last_patience{80};

// The number of keys of runs from which on a release checks whether any can be deleted:
// those that to_forget() keeps, and the few keys that are not runs.
constexpr std::int64_t few_runs = 33;

bool has_ended(const LockSnapshot& snapshot, Fence fence) {
  return std::any_of(snapshot.runs.past.begin(), snapshot.runs.past.end(),
                     [&](const PastRun& run) {
                       return run.info.fence == fence && !forced_by(run.info);
                     });
}

}  // namespace

asio::awaitable<Release> EtcdClaimant::release(const std::optional<RunEnd>& end,
                                               Wakeup& wakeup) {
  watch_.reset();
  waits_in_.reset();
  final_answer_.reset();
  // Another client may have obtained the detached lease.
  const bool has_lease = lease_ != 0 || !former_leases_.empty();
  if (!own_ && !has_lease && claim().attached) co_return Release::not_ours;
  const auto answer = co_await give_back(end, wakeup);
  const bool is_left = end && end->leaves_lease && answer == Release::released;
  co_return is_left ? Release::left : answer;
}

asio::awaitable<Release> EtcdClaimant::give_back(const std::optional<RunEnd>& end,
                                                 Wakeup& wakeup) {
  // Not `wakeup`, which may be interrupted: the lease is released nevertheless, within a
  // short time.
  Wakeup own(calls_.context());
  CallContext call{{wakeup.last_request_until(calls_.timeout(), last_patience), own}};
  // No entry depends on a lease that was never confirmed. If it was granted all the same,
  // it expires when it cannot be revoked: not worth a second timeout.
  if (!own_ && !lasts_from_ && claim().attached) {
    call.until = later(Clock::now(), std::min(calls_.timeout(), last_patience));
    const bool may_come_late = !former_leases_.empty();
    forget_lease();
    ++times_;
    const auto unrevoked = co_await revoke_former_leases(call);
    if (unrevoked && may_come_late) throw *unrevoked;
    co_return Release::not_ours;
  }
  // A waiter may have been granted the lock since, and the state of a detached lease is
  // unknown.
  if (!own_ || !claim().attached) {
    co_await look(call);
    const auto known = own_;
    adopt(call.snapshot);
    if (!own_ && known && claim().attached) own_ = known;
  }
  std::optional<Release> answer;
  std::optional<Failure> failure;
  try {
    while (!answer) answer = co_await end_lease(end, call);
  } catch (const Failure& error) {
    failure = error;  // co_await is not allowed in here
  }
  if (failure) {
    const bool was_held = co_await free_unrecorded(end, call);
    if (!was_held) throw *failure;
    answer = Release::released;
  }
  if (loss_found_by(*answer)) co_return *answer;  // and to be released again
  const bool is_left = end && end->leaves_lease && *answer == Release::released;
  // A lock that stays held depends on the lease it was given.
  const bool is_kept = own_ && own_->standing == Standing::ended;
  const auto left = is_left || is_kept ? lease_ : 0;
  own_.reset();
  forget_lease();
  former_leases_.erase(left);
  ++times_;
  const auto unrevoked = co_await revoke_former_leases(call);
  // A request that is still on its way could set up an entry with one of them.
  const bool held_nothing = *answer == Release::not_ours && !end && claim().attached;
  if (unrevoked && held_nothing) throw *unrevoked;
  if (runs_kept_ > few_runs) co_await forget_runs(call);
  co_return *answer;
}

// Nothing if the entry has changed.
asio::awaitable<std::optional<Release>> EtcdClaimant::end_lease(
    const std::optional<RunEnd>& end, CallContext& call) {
  if (!own_ || own_->standing == Standing::ended) {
    co_return co_await end_without(end, call);
  }
  const bool is_broken = own_->standing == Standing::broken;
  if (is_broken && end && !end->lost) {
    taken_by_ = own_->taken_by;
    co_return Release::broken;
  }
  Ending ending;
  if (own_->holds()) ending.end = end;
  ending.kept_on = co_await lease_to_keep_on(end, call);
  auto request = etcd::give_back(step_context(), *own_, ending);
  const auto result = co_await write(std::move(request), call);
  if (result.succeeded) {
    runs_kept_ = runs_kept_after(result);
    co_return own_->holds() ? Release::released : Release::not_ours;
  }
  if (result.lease_gone) {
    co_await look(call);
  } else {
    call.snapshot = snapshot_from(claim().lock, result);
  }
  const auto known = *own_;
  adopt(call.snapshot);
  // Only the same claim can have an entry with this id again.
  const bool is_same = own_ && own_->created == known.created;
  if (is_same) co_return std::nullopt;
  own_ = known;
  co_return co_await end_without(end, call);
}

// A cluster whose database is full refuses writes, but revokes leases. False if that did
// not free the lock, or the lock has to stay held.
asio::awaitable<bool> EtcdClaimant::free_unrecorded(const std::optional<RunEnd>& end,
                                                    CallContext& call) {
  const bool is_wanted = own_ && own_->standing == Standing::holds && lease_ != 0 &&
                         claim().min_hold == milliseconds(0);
  if (!is_wanted || (end && end->leaves_lease)) co_return false;
  try {
    // It may have been broken since, which has to be reported.
    co_await look(call);
    const auto* entry = entry_of(call.snapshot, id());
    const bool is_unbroken = entry != nullptr && entry->standing == Standing::holds;
    if (!is_unbroken && end && !end->lost) co_return false;
    LeaseRevokeRequest request{lease_};
    const auto revoked = co_await calls_.lease_revoke(request, call);
    co_return revoked.was_there;
  } catch (const Failure&) {
    co_return false;
  }
}

// There is no entry to release, or it no longer has an owner.
asio::awaitable<Release> EtcdClaimant::end_without(const std::optional<RunEnd>& end,
                                                   CallContext& call) {
  const bool had_it = own_ && own_->holds();
  if (!had_it || !end) co_return Release::not_ours;
  if (has_ended(call.snapshot, own_->fence()))
    co_return Release::released;  // recorded by an earlier attempt
  if (!end->lost) {
    const auto renewal = co_await found_lost(call);
    if (renewal == Renewal::taken_over) co_return Release::taken_over;
    if (renewal == Renewal::gone) co_return Release::gone;
    if (renewal == Renewal::broken) co_return Release::broken;
    // The lock was not granted to another claim meanwhile.
    Ending ending;
    ending.end = end;
    auto request = etcd::give_back(step_context(), *own_, ending);
    const auto result = co_await write(std::move(request), call);
    co_return result.succeeded ? Release::released : Release::gone;
  }
  auto request = record_lost(step_context(), call.snapshot.runs, *own_, *end);
  co_await write(std::move(request), call);
  co_return Release::not_ours;
}

// The lease of a lock that stays held for a while, or until its lease ends; 0 if it
// becomes free.
asio::awaitable<std::int64_t> EtcdClaimant::lease_to_keep_on(
    const std::optional<RunEnd>& end, CallContext& call) {
  if (!end || !own_->holds()) co_return 0;
  if (end->leaves_lease) co_return own_->lease;
  const auto left = later(granted_at_, claim().min_hold) - Clock::now();
  if (own_->standing == Standing::broken || left <= nanoseconds(0)) co_return 0;
  const auto seconds = seconds_for(std::chrono::ceil<milliseconds>(left));
  const auto kept = co_await grant_lease(seconds, call);
  co_return kept.id;
}

// Best effort.
asio::awaitable<void> EtcdClaimant::forget_runs(CallContext& call) {
  try {
    co_await look(call);
    auto request =
        forget(to_forget(call.snapshot.runs, call.snapshot.entries, wall_now()));
    if (request.then.empty()) co_return;
    co_await calls_.txn(std::move(request), Repeat::freely, call);
  } catch (const Failure&) {
    // The next release tries again.
  }
}

}  // namespace dlock::etcd
