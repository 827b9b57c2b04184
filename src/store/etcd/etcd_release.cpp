// EtcdClaimant: giving back what it has, and saying how the run under it ended.
#include <algorithm>
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"
#include "util/random.hpp"

namespace dlock::etcd {
namespace {

// For how long what is ours is still given back where the user wants to be gone.
constexpr milliseconds last_patience{80};

// Keys of runs that may be there before it is looked whether any can be forgotten: those
// that to_forget() keeps, and the few that are no runs.
constexpr std::int64_t few_runs = 33;

bool has_ended(const Line& line, Fence fence) {
  return std::any_of(line.runs.past.begin(), line.runs.past.end(),
                     [&](const PastRun& run) { return run.info.fence == fence; });
}

}  // namespace

asio::awaitable<Release> EtcdClaimant::release(const std::optional<RunEnd>& end,
                                               Wakeup& wakeup) {
  watch_.reset();
  waits_in_.reset();
  told_.reset();
  // A detached lease may have been another client's to ask for.
  if (!own_ && lease_ == 0 && claim().attached) co_return Release::not_ours;
  if (!end || !end->leaves_lease) co_return co_await give_back(end, wakeup);
  // The lease is held on, whether or not the cluster learns how the run ended.
  try {
    const auto answer = co_await give_back(end, wakeup);
    co_return answer == Release::released ? Release::left : answer;
  } catch (const Failure&) {
    own_.reset();
    forget_lease();
    ++times_;
    co_return Release::left;
  }
}

asio::awaitable<Release> EtcdClaimant::give_back(const std::optional<RunEnd>& end,
                                                 Wakeup& wakeup) {
  // Not `wakeup`, which gives up: what is ours is given back all the same, if it is
  // quick.
  Wakeup own(calls_.context());
  const auto patience =
      wakeup.gives_up() ? std::min(calls_.timeout(), last_patience) : calls_.timeout();
  Turn turn{Queue::stay_out, later(Clock::now(), patience), own, {}};
  // No entry hangs on a lease that was never confirmed. It may have been granted all the
  // same, and then it expires if it cannot be revoked: not worth a second timeout.
  if (!own_ && !lasts_from_ && claim().attached) {
    turn.until = later(Clock::now(), std::min(calls_.timeout(), last_patience));
    co_await revoke(lease_, turn);
    forget_lease();
    ++times_;
    co_return Release::not_ours;
  }
  // A waiter may have been granted the lock since, and of a detached lease nothing is
  // known.
  if (!own_ || !claim().attached) {
    co_await look(turn);
    const auto known = own_;
    adopt(turn.line);
    if (!own_ && known && claim().attached) own_ = known;
  }
  std::optional<Release> answer;
  std::optional<Failure> failure;
  try {
    while (!answer) answer = co_await end_lease(end, turn);
  } catch (const Failure& error) {
    failure = error;  // co_await is not allowed in here
  }
  if (failure) {
    const bool was_held = co_await free_unrecorded(end, turn);
    if (!was_held) throw *failure;
    answer = Release::released;
  }
  if (loss_found_by(*answer)) co_return *answer;  // and to be released again
  const bool is_left = end && end->leaves_lease && *answer == Release::released;
  // What is held on hangs on the lease that it was given, told or not.
  const bool is_kept = own_ && own_->standing == Standing::ended;
  if (lease_ != 0 && !is_left && !is_kept) co_await revoke(lease_, turn);
  own_.reset();
  forget_lease();
  ++times_;
  if (runs_kept_ > few_runs) co_await forget_runs(turn);
  co_return *answer;
}

// Nothing if the entry was not as it was thought to be.
asio::awaitable<std::optional<Release>> EtcdClaimant::end_lease(
    const std::optional<RunEnd>& end, Turn& turn) {
  if (!own_ || own_->standing == Standing::ended) {
    co_return co_await end_without(end, turn);
  }
  const bool is_broken = own_->standing == Standing::broken;
  if (is_broken && end && !end->lost) {
    taken_by_ = own_->taken_by;
    co_return Release::broken;
  }
  Ending ending;
  if (own_->holds()) ending.end = end;
  ending.kept_on = co_await lease_to_keep_on(end, turn);
  auto request = etcd::give_back(scene(), *own_, ending);
  const auto result = co_await write(std::move(request), turn);
  if (result.succeeded) {
    runs_kept_ = runs_kept_after(result);
    co_return own_->holds() ? Release::released : Release::not_ours;
  }
  if (result.lease_gone) {
    co_await look(turn);
  } else {
    turn.line = line_from(claim().lock, result);
  }
  const auto known = *own_;
  adopt(turn.line);
  // The same name may be in line again only for the same claim.
  const bool is_same = own_ && own_->created == known.created;
  if (is_same) co_return std::nullopt;
  own_ = known;
  co_return co_await end_without(end, turn);
}

// A cluster whose data base is full writes nothing, but revokes leases. False if the lock
// was not freed so, or has to be held on.
asio::awaitable<bool> EtcdClaimant::free_unrecorded(const std::optional<RunEnd>& end,
                                                    Turn& turn) {
  const bool is_wanted = own_ && own_->standing == Standing::holds && lease_ != 0 &&
                         claim().min_hold == milliseconds(0);
  if (!is_wanted || (end && end->leaves_lease)) co_return false;
  try {
    // It may have been broken since, and then that has to be told.
    co_await look(turn);
    const auto* entry = entry_of(turn.line, id());
    const bool is_unbroken = entry != nullptr && entry->standing == Standing::holds;
    if (!is_unbroken && end && !end->lost) co_return false;
    LeaseRevokeRequest request{lease_};
    const auto revoked = co_await calls_.lease_revoke(request, turn.until, turn.wakeup);
    co_return revoked.was_there;
  } catch (const Failure&) {
    co_return false;
  }
}

// There is no entry that could be given back, or it is nobody's any more.
asio::awaitable<Release> EtcdClaimant::end_without(const std::optional<RunEnd>& end,
                                                   Turn& turn) {
  const bool had_it = own_ && own_->holds();
  if (!had_it || !end) co_return Release::not_ours;
  if (has_ended(turn.line, own_->fence())) co_return Release::released;  // as it was told
  if (!end->lost) {
    const auto renewal = co_await found_lost(turn);
    if (renewal == Renewal::taken_over) co_return Release::taken_over;
    if (renewal == Renewal::gone) co_return Release::gone;
    // Nobody was granted the lock meanwhile.
    Ending ending;
    ending.end = end;
    auto request = etcd::give_back(scene(), *own_, ending);
    const auto result = co_await write(std::move(request), turn);
    co_return result.succeeded ? Release::released : Release::gone;
  }
  auto request = record_lost(scene(), *own_, *end);
  co_await write(std::move(request), turn);
  co_return Release::not_ours;
}

// That of a lock that is held on for a while, or is left to its lease; 0 if it is free.
asio::awaitable<std::int64_t> EtcdClaimant::lease_to_keep_on(
    const std::optional<RunEnd>& end, Turn& turn) {
  if (!end || !own_->holds()) co_return 0;
  if (end->leaves_lease) co_return own_->lease;
  const auto left = later(granted_at_, claim().min_hold) - Clock::now();
  if (own_->standing == Standing::broken || left <= nanoseconds(0)) co_return 0;
  Token any;
  any.bytes = random_bytes();
  LeaseGrantRequest request{lease_for(any),
                            seconds_for(std::chrono::ceil<milliseconds>(left))};
  co_await calls_.lease_grant(request, turn.until, turn.wakeup);
  co_return request.id;
}

// Nothing depends on it.
asio::awaitable<void> EtcdClaimant::forget_runs(Turn& turn) {
  try {
    co_await look(turn);
    auto request = forget(to_forget(turn.line.runs, turn.line.entries, wall_now()));
    if (request.then.empty()) co_return;
    co_await calls_.txn(std::move(request), Repeat::freely, turn.until, turn.wakeup);
  } catch (const Failure&) {
    // The next one will.
  }
}

// What it held ends with it, and nothing of it that comes late is good for anything. One
// that cannot be revoked ends by itself.
asio::awaitable<void> EtcdClaimant::revoke(std::int64_t lease, Turn& turn) {
  try {
    LeaseRevokeRequest request{lease};
    co_await calls_.lease_revoke(request, turn.until, turn.wakeup);
  } catch (const Failure&) {
  }
}

}  // namespace dlock::etcd
