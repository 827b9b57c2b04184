// Keeping a lease: renewing it, or looking whether it still holds.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "lock/claimant.hpp"
#include "lock/clock.hpp"
#include "lock/lease_watcher.hpp"
#include "lock/timing.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// When the next renewal is due: `sent_at` was when the last one was sent that was
// confirmed, `failures` counts those that failed since, the last one at `now`. Renewals
// come earlier by a random part of up to a tenth, so that runs that started together
// do not stay together.
Clock::time_point next_renewal(const LeaseTiming& timing, Clock::time_point sent_at,
                               int failures, Clock::time_point now);

// Keeps the lease of a claim until it is told to stop or the lease is certainly lost. One
// that can run out (`runs_out`) is renewed in time; one that cannot is only looked at
// when something is heard of it, or every second where nothing can be heard. One that was
// broken is kept on, for it keeps others out until the holder has ended.
//
// It moves the watcher's deadline and never acts on it: if renewals fail, the deadline
// just stays.
class LeaseKeeper {
 public:
  LeaseKeeper(asio::io_context& context, Claimant& claimant, bool runs_out,
              LeaseTiming timing, LeaseWatcher& watcher);
  ~LeaseKeeper();  // stops
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Begins once the caller waits for something; until then it starts a command, say.
  // `granted_at` is when the request was sent that was granted. Throws Failure
  // (exhausted).
  void start(Clock::time_point granted_at);

  // From here on the watcher is not touched any more. The claimant is, until ended().
  void stop();

  // Waits, after stop(), for a renewal under way; nothing if there is none.
  asio::awaitable<void> ended(Wakeup& wakeup);

 private:
  struct State;
  static asio::awaitable<void> keep(std::shared_ptr<State> state);
  static void listen(State& state);
  static asio::awaitable<void> sleep(State& state);
  static asio::awaitable<bool> renew(State& state);

  std::shared_ptr<State> state_;  // the coroutine has it, too
};

}  // namespace dlock
