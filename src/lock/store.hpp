// The interface to a lock service.
#pragma once

#include <boost/asio/awaitable.hpp>
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
#include "lock/wakeup.hpp"
#include "util/failure.hpp"

namespace dlock {

// A lock service, as one process sees it. Each call is one atomic step in the store.
//
// Expected outcomes are values. A Failure means that the outcome is unknown or that
// nothing was done; each call may be repeated with the same claim, and a repeat finds
// what the first one did. Each call ends within the store timeout.
class Store {
 public:
  virtual ~Store() = default;

  // Its URL with absolute paths and without secrets: for DLOCK_STORE and reports.
  virtual std::string url() const = 0;

  // Whether a grant excludes anybody at all.
  virtual bool protects() const { return true; }

  // Whether a lease ends by the clock if nobody renews it.
  virtual bool leases_run_out() const = 0;

  // What puts `claim` to the store. Contacts nothing yet.
  virtual std::unique_ptr<Claimant> claimant(const Claim& claim) = 0;

  // Takes the lock from those of its holders that have one of these fences, and returns
  // them; 0 is a holder that is not dlock's. A lease that is kept (LeaseKeeper) is
  // marked, and its watcher is told that it is broken, within a second unless it cannot
  // be reached: it stays until it is released or ends, and is not kept for min_hold. A
  // lease of which nobody can be told (detached, foreign, or held on for min_hold) is
  // freed, and handed on in the same step. `dlock_gone` is set where there is nobody to
  // tell, and a run that has to be ended. To repeat it does nothing more, but looks again
  // for what is left of such runs.
  virtual asio::awaitable<std::vector<Broken>> break_leases(
      const LockName& lock, const std::vector<Fence>& fences, Wakeup& wakeup) = 0;

  virtual LockInspector& inspector() = 0;

  // What a store may lack: null then. See needed().
  virtual ValueStore* values() { return nullptr; }
  virtual RateLimits* rates() { return nullptr; }
  virtual FenceRegisters* registers() { return nullptr; }
};

// Unsupported: "`url` keeps no `what`".
Failure unsupported(const std::string& url, const std::string& what);

// Each throws Failure (unsupported) where the store has none.
ValueStore& values_of(Store& store);
RateLimits& rates_of(Store& store);
FenceRegisters& registers_of(Store& store);

}  // namespace dlock
