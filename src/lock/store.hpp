// The interface to a lock service.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/claimant.hpp"
#include "lock/fence_registers.hpp"
#include "lock/inspector.hpp"
#include "lock/lease.hpp"
#include "lock/rates.hpp"
#include "lock/value.hpp"
#include "loop/wakeup.hpp"
#include "util/failure.hpp"

namespace dlock {

// A lock service as one process uses it. Each call is one atomic step in the store.
//
// Expected outcomes are values. A Failure means that the outcome is unknown or that
// nothing was done. Each call may be repeated with the same claim; the repeat finds what
// the first call did. Each call ends within the store timeout.
class Store {
 public:
  virtual ~Store() = default;

  // The URL with absolute paths and without secrets, for DLOCK_STORE and reports.
  virtual std::string url() const = 0;

  // Whether a grant excludes others at all.
  virtual bool protects() const { return true; }

  // Whether a lease expires if it is not renewed.
  virtual bool leases_expire() const = 0;

  // An object that sends `claim` to the store. Does not contact the store yet.
  virtual std::unique_ptr<Claimant> claimant(const Claim& claim) = 0;

  // Takes the lock from some holders, and returns them. A lease that is being renewed
  // (LeaseKeeper) is marked as broken; its watcher learns that within a second unless it
  // cannot be reached. The lease lasts until it is released or expires, without min_hold.
  // A lease whose holder cannot be notified (detached, foreign, or held for min_hold) is
  // freed and handed over in the same step. `dlock_gone` is set if there is no dlock to
  // notify but a run that has to be ended. Repeating the call changes nothing more, but
  // looks again for remaining processes of such runs.
  //
  // By force, every such lease is freed and handed over in the same step, whether or not
  // its command still runs, and the run is recorded as lost (forced_reason()). A holder
  // that is alive learns that its lease is broken as above, at its next renewal at the
  // latest. A store whose leases do not expire ignores that: it knows who is alive.
  virtual asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                            const Break& order,
                                                            Wakeup& wakeup) = 0;

  // Calls `warn`, once for each message, when a server of several says what most of them
  // contradict, or fails in a way that lasts, and the request succeeds without it.
  virtual void report_complaints(std::function<void(const std::string&)> /*warn*/) {}

  virtual LockInspector& inspector() = 0;

  // Optional features; null if the store does not support them. See values_of() and the
  // like.
  virtual ValueStore* values() { return nullptr; }
  virtual RateLimits* rates() { return nullptr; }
  virtual FenceRegisters* registers() { return nullptr; }
};

// A Failure (unsupported): "`url` does not support `what`".
Failure unsupported(const std::string& url, const std::string& what);

// Each throws Failure (unsupported) if the store does not support it.
ValueStore& values_of(Store& store);
RateLimits& rates_of(Store& store);
FenceRegisters& registers_of(Store& store);

}  // namespace dlock
