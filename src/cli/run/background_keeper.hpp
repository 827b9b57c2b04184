// The background process of `dlock acquire --for-pid`.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"

namespace dlock {

// A second process that renews a detached lease while a third process, the beneficiary,
// is alive, and then releases it.
//
// It runs in its own session, without a terminal, without descriptors of this process,
// and is not its child. It is started before the lock is requested. If this object is
// destroyed before stay(), the process releases whatever it holds and exits. It also
// exits at its next renewal if the lease was lost or released by token. After SIGTERM it
// stops renewing, but still releases the lease if the beneficiary ends before the lease
// does.
class BackgroundKeeper {
 public:
  // Throws UsageError if the process `beneficiary` does not exist, and Failure if the
  // background process cannot be started or the beneficiary cannot be watched. `budget`
  // is the time limit of one operation on the store.
  BackgroundKeeper(pid_t beneficiary, const StoreUrl& store, const Claim& claim,
                   milliseconds budget);

  // Calls `ended` once, when the beneficiary ends.
  std::unique_ptr<Readable> watch_beneficiary(asio::io_context& context,
                                              std::function<void()> ended);

  // To be called once the lock is granted. Returns after the background process has
  // renewed the lease. Throws Failure if it cannot renew it, or when `wakeup` gives up.
  asio::awaitable<void> take_over(asio::io_context& context, Wakeup& wakeup);

  // To be called once the caller has the token: from then on the background process no
  // longer depends on this one.
  void stay();

 private:
  Fd channel_;
  Fd beneficiary_;
  milliseconds budget_;
};

}  // namespace dlock
