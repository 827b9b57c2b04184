// The process behind `dlock acquire --for-pid`.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "lock/store.hpp"
#include "store/open.hpp"
#include "util/readable.hpp"

namespace dlock {

// Another process, which keeps a detached lease renewed for as long as a third one lives,
// the beneficiary, and gives it back then.
//
// It has a session, but no terminal and no descriptors of ours, and is nobody's child. It
// is made before the lock is asked for and ends by itself, giving back what there may be,
// if this object is destroyed before stay(). When the lease is lost or was given back by
// token it ends too, at its next renewal. Told to end (SIGTERM) it renews no more, and
// still gives the lease back if the beneficiary ends before the lease does.
class BackgroundKeeper {
 public:
  // Throws UsageError if there is no process `beneficiary`, and Failure if none can be
  // started or watched. `budget`: of one operation on the store.
  BackgroundKeeper(pid_t beneficiary, const StoreUrl& store, const Claim& claim,
                   milliseconds budget);
  ~BackgroundKeeper();
  BackgroundKeeper(const BackgroundKeeper&) = delete;
  BackgroundKeeper& operator=(const BackgroundKeeper&) = delete;

  // Calls back when the beneficiary ends. Once.
  std::unique_ptr<Readable> watch_beneficiary(asio::io_context& context,
                                              std::function<void()> ended);

  // The lock was granted: returns once the keeper has renewed the lease. Throws Failure
  // if it cannot, or when `wakeup` gives up.
  asio::awaitable<void> take_over(asio::io_context& context, Wakeup& wakeup);

  // The caller has the token: the keeper does not depend on this process any more.
  void stay();

 private:
  Fd channel_;
  Fd beneficiary_;
  milliseconds budget_;
};

}  // namespace dlock
