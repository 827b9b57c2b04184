// Keeps a lease: renews it, or checks whether it still holds. Between that and the
// command that runs under it: the interface to the command, and --on-outage.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "lock/answers.hpp"
#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"

namespace dlock {

// Notified of changes to the lease. The caller knows stores, the implementation knows
// processes; neither knows both.
class LeaseWatcher {
 public:
  virtual ~LeaseWatcher() = default;

  // The lease certainly holds until `deadline`. max(): nothing is to end because of the
  // lease.
  virtual void extend(Clock::time_point deadline) = 0;

  // A renewal was not confirmed and will be tried again. Nothing else is known. `why`:
  // the message of the Failure.
  virtual void renewal_failed(Clock::time_point /*now*/, const std::string& /*why*/) {}

  // The lease had vanished and was restored before another claim was granted the lock:
  // for a moment nothing kept others out. Called right before `extend`.
  virtual void reclaimed() {}

  // The lease is lost for good: everything that relies on it has to end now.
  virtual void forfeit(Loss loss) = 0;
};

// Several leases that one command relies on: it has to end before the first of them does,
// and as soon as one of them is lost.
class LeaseGroup {
 public:
  // `command` has to outlive it.
  explicit LeaseGroup(LeaseWatcher& command) : command_(command) {}
  LeaseGroup(const LeaseGroup&) = delete;
  LeaseGroup& operator=(const LeaseGroup&) = delete;

  // The watcher of one more lease, which holds until `deadline`. It lives as long as the
  // group.
  LeaseWatcher& add(Clock::time_point deadline);

 private:
  class Member final : public LeaseWatcher {
   public:
    Member(LeaseGroup& group, Clock::time_point deadline)
        : group_(group), deadline_(deadline) {}

    void extend(Clock::time_point deadline) override;
    void renewal_failed(Clock::time_point now, const std::string& why) override {
      group_.command_.renewal_failed(now, why);
    }
    void forfeit(Loss loss) override { group_.command_.forfeit(loss); }
    Clock::time_point deadline() const { return deadline_; }

   private:
    LeaseGroup& group_;
    Clock::time_point deadline_;
  };

  LeaseWatcher& command_;
  std::list<Member> members_;
};

// What a run does when its lease cannot be renewed.
enum class OnOutage {
  stop,  // stop the command before its lease expires
  run,   // let the command continue without the lock
};

// Stands between the keeper of a lease and the supervisor of the command. With `stop` it
// forwards every call. With `run` the first failed renewal removes the deadline, so that
// nothing stops the command even if this process is stopped later. A confirmed renewal
// sets the deadline again: a lease that can be renewed has held all the time.
class OutagePolicy : public LeaseWatcher {
 public:
  // `warn` is called with warnings for the user: once per outage when the lease may have
  // expired, and when it is certainly lost.
  OutagePolicy(OnOutage on_outage, LeaseTiming timing, Clock::time_point deadline,
               LeaseWatcher& command, std::function<void(const std::string&)> warn);

  void extend(Clock::time_point deadline) override;
  void renewal_failed(Clock::time_point now, const std::string& why) override;

  // A loss that is found while renewals fail, or right after, is part of the outage. Any
  // other loss stops the command, whatever --on-outage is.
  void forfeit(Loss loss) override;

  // Whether the lease has certainly held until `now`.
  bool has_held(Clock::time_point now) const;

  // Whether there is an outage that the command is to survive.
  bool is_in_outage() const { return in_outage_; }

  // Why the lease was lost, if that is certain.
  std::optional<Loss> lost() const { return lost_; }

  // The last moment at which the lease certainly held, as far as is known.
  Clock::time_point deadline() const { return deadline_; }

 private:
  OnOutage on_outage_;
  LeaseTiming timing_;
  Clock::time_point deadline_;
  LeaseWatcher& command_;
  std::function<void(const std::string&)> warn_;
  bool in_outage_ = false;
  bool has_warned_ = false;
  std::optional<Loss> lost_;
};

// When the next renewal is due. `sent_at`: when the last confirmed request was sent.
// `failures`: failed renewals since, the last at `now`. Renewals come earlier by a random
// part of up to a tenth, so that runs that started together drift apart.
Clock::time_point next_renewal(const LeaseTiming& timing, Clock::time_point sent_at,
                               int failures, Clock::time_point now);

// Keeps the lease of a claim until it is stopped or the lease is certainly lost. A lease
// that can expire (`can_expire`) is renewed in time. Any other lease is only checked, on
// a notification or every second where there are no notifications. A broken lease is
// still renewed, because it keeps others out until the holder has ended.
//
// It moves the watcher's deadline and never acts on it: if renewals fail, the deadline
// stays where it is.
class LeaseKeeper {
 public:
  LeaseKeeper(asio::io_context& context, Claimant& claimant, bool can_expire,
              LeaseTiming timing, LeaseWatcher& watcher);
  ~LeaseKeeper();  // stops
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Starts to renew once the caller waits for something, for example after it has started
  // a command. `granted_at`: when the granted request was sent. Throws Failure
  // (exhausted).
  void start(Clock::time_point granted_at);

  // From now on the watcher is not called any more. The claimant may be, until ended()
  // returns.
  void stop();

  // After stop(): asks a renewal in progress to stop as well, instead of waiting for the
  // store.
  void interrupt();

  // After stop(): waits for a renewal in progress, if there is one.
  asio::awaitable<void> ended(Wakeup& wakeup);

 private:
  struct State;
  static asio::awaitable<void> keep(std::shared_ptr<State> state);
  static void listen(State& state);
  static asio::awaitable<void> sleep(State& state);
  static asio::awaitable<bool> renew(State& state);

  std::shared_ptr<State> state_;  // shared with the coroutine
};

}  // namespace dlock
