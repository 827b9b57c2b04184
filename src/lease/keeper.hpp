// Keeps a lease: renews it, or checks whether it still holds.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "lease/lease_watcher.hpp"
#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"

namespace dlock {

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
