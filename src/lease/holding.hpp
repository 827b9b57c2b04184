// Acquires a lock: asks a store until it grants it, or until the wait is over. And a lock
// held on behalf of a verb: claimed, granted, kept and released.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lease/keeper.hpp"
#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "util/failure.hpp"

namespace dlock {

struct Patience {
  // How long to wait in the queue; nothing: ask once; max(): without end.
  std::optional<Clock::time_point> until;
  // Whether an unreachable store is tried again during the wait.
  bool waits_for_store = true;
  // Called each time the claim is found waiting. Returns how long the text shown to the
  // user stays valid: after that the store is asked again, which otherwise happens only
  // when the lock may have become free.
  std::function<milliseconds(const Busy&)> waiting;
  // Called with the reason before an unreachable store is tried again.
  std::function<void(const Failure&)> retrying;
  // Like `waiting`, to act on the holders that block the claim.
  std::function<asio::awaitable<milliseconds>(const Busy&)> clearing{};
};

// Requests the lock and waits for its turn. Returns Busy only when the wait is over, or
// when the queue is too long for this claim (Claim::max_queue); the store has counted the
// refusal by then. For a deduplicated claim that has waited for a run to end, that run
// counts. An unreachable store is tried again while the wait allows it; then its Failure
// is thrown. Every other Failure is thrown at once.
asio::awaitable<Answer> acquire(Claimant& claimant, const Patience& patience,
                                Wakeup& wakeup);

struct TurnPatience {
  // How long to wait; min(): ask once; max(): without end.
  Clock::time_point until = Clock::time_point::min();
  // Called while the claim has a turn, with the time until then. Returns how long the
  // text shown to the user stays valid.
  std::function<milliseconds(milliseconds turn_in)> waiting;
  // Called with the reason before an unreachable store is tried again.
  std::function<void(const Failure&)> retrying;
};

// Asks for admission, sleeps until the claim's turn and asks again. Returns NotAdmitted
// as soon as it is known that the turn comes too late. An unreachable store is tried
// again while the wait allows it, as in acquire(). An interrupted claim loses its
// place in the queue.
asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup);

// What `run`, `acquire` and the background process of `acquire --for-pid` have in common.
// It reports what happens and decides nothing: what a loss or a refusal means is for the
// verb to say.
class Holding final : private LeaseWatcher {
 public:
  // The other objects have to outlive it. Contacts nothing yet.
  Holding(asio::io_context& context, Wakeup& wakeup, Store& store, const Claim& claim,
          const LeaseTiming& timing);
  ~Holding() override;
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  Store& store() const { return store_; }
  Claimant& claimant() const { return *claimant_; }
  const Claim& claim() const { return claimant_->claim(); }
  const LeaseTiming& timing() const { return timing_; }

  // Requests the lock as acquire() does.
  asio::awaitable<Answer> obtain(const Patience& patience);

  // Requests it once more because too little of the lease is left, or it was lost (this
  // process was stopped, the machine was suspended, or the store was slow or restarted).
  // Throws Failure, even if that was necessary too often.
  asio::awaitable<Answer> ask_again();

  // Takes over the lease that another process was granted: renews it for the first time.
  // Throws Failure.
  asio::awaitable<Renewal> take_over();

  // What was granted last; nothing if the last answer was another one. The deadline moves
  // while the lease is kept.
  const std::optional<Grant>& grant() const { return grant_; }

  // Whether this much of the lease is certainly left, as far as is known.
  bool lasts(milliseconds span) const;

  // When the lease ends in the store unless it is released.
  Clock::time_point lease_end() const;

  // Renews the lease, or checks it, until stop_keeping(); `watcher` is told what happens,
  // if there is one. keep() throws Failure (exhausted).
  void prepare_to_keep(LeaseWatcher* watcher);
  void keep();

  // From now on the lease is not renewed any more, and nothing is learned of it.
  void stop_renewing();

  // The same, and waits for a renewal in progress. After that, the lease can be asked for
  // again, and kept again.
  asio::awaitable<void> stop_keeping();

  // Why the lease was lost, if that is certain.
  std::optional<Loss> lost() const { return lost_; }

  // Why the last renewal failed, if it did.
  const std::optional<std::string>& why_not_renewed() const { return why_not_renewed_; }

  // Releases the lock, or leaves the queue, as Claimant::release() does. Always safe:
  // releasing a lock that is not ours does nothing.
  asio::awaitable<Release> release(const std::optional<RunEnd>& end) {
    return release(end, wakeup_);
  }

  // The same while others use the wake-up of the constructor: with one of the call's own,
  // which has to outlive it.
  asio::awaitable<Release> release(const std::optional<RunEnd>& end, Wakeup& wakeup);

  // Tries to release it until that succeeds or `until` has come, but at least once. With
  // `asks_first` each attempt first waits until the store replies, because a signal can
  // interrupt that, and not a release. Returns whether it was released.
  asio::awaitable<bool> release_by(Clock::time_point until,
                                   const std::optional<RunEnd>& end, milliseconds pause,
                                   bool asks_first);

 private:
  void extend(Clock::time_point deadline) override;
  void renewal_failed(Clock::time_point now, const std::string& why) override;
  void reclaimed() override;
  void forfeit(Loss loss) override;
  void note(const Answer& answer);

  asio::io_context& context_;
  Wakeup& wakeup_;
  Store& store_;
  std::unique_ptr<Claimant> claimant_;
  LeaseTiming timing_;
  std::optional<Grant> grant_;
  int repeats_ = 0;
  LeaseWatcher* watcher_ = nullptr;
  std::optional<LeaseKeeper> keeper_;
  std::optional<Loss> lost_;
  std::optional<std::string> why_not_renewed_;
};

}  // namespace dlock
