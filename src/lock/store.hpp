// The interface to a lock service, and what it offers beside locks: fence registers,
// cached values and rate limits.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/claimant.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// The answer of a fence register.
enum class Admission { admitted, stale };

// How long a value is fresh, and how much longer it is kept after that.
struct Lifetime {
  milliseconds ttl{0};
  milliseconds stale{0};
};

struct Value {
  std::string bytes;
  bool is_fresh = false;  // within its ttl
};

struct ValueLookup {
  std::optional<Value> value;
  // Why the stored value cannot be used, for people; empty if it is not damaged.
  std::string damage;
};

// The answer for a value that is larger than the caller accepts.
inline ValueLookup too_large(std::size_t size, std::size_t most) {
  return {{},
          std::to_string(size) + " bytes are stored, more than " + std::to_string(most) +
              " (--max-size)"};
}

// A value without its bytes, for display.
struct ValueInfo {
  std::size_t size = 0;
  std::optional<milliseconds> age;  // since it was stored, if known
  milliseconds fresh_for{0};        // rest of its ttl
  milliseconds expires_in{0};       // until it is removed
};

struct ValueLook {
  std::optional<ValueInfo> value;
  std::string damage;  // as in ValueLookup
};

// The result of storing a value.
enum class Storing { stored, not_ours };

// Cached values, which a store may support.
class ValueStore {
 public:
  virtual ~ValueStore() = default;

  // The last value stored under this name, unless it was forgotten or its lifetime is
  // over. A value that is damaged, or larger than `most` bytes, is not returned but
  // reported. A large value is read in pieces, each within the store timeout.
  virtual asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                           Wakeup& wakeup) = 0;

  // Like get(), without the bytes. The bytes of a large value may still be damaged.
  virtual asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) = 0;

  // Replaces the value stored under the name of the lock, completely or not at all, if
  // this claim holds the lock: exclusive, attached, and no longer being renewed
  // (LeaseKeeper). A lease that can expire lasts for its full ttl again afterwards. After
  // a Failure the old value is still there. Large values are written as get() reads them.
  virtual asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                                       Lifetime lifetime, Wakeup& wakeup) = 0;

  // Removes the value. A holder of the lock may still store a new one.
  virtual asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) = 0;
};

struct LockHistory {
  LockName lock;
  std::vector<RunInfo> runs;
  WallTime now{};           // by the store's clock
  std::size_t damaged = 0;  // records of more runs
};

// Whether a lock of this name is meant.
using NameFilter = std::function<bool(const std::string&)>;

// None of these calls changes a lock.
class LockInspector {
 public:
  virtual ~LockInspector() = default;

  // The lock as it is now; a lock that was never used is free.
  virtual asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) = 0;

  // The same for a caller that goes on with its work because of the answer: never the
  // state of an earlier time, for which a store may have to write.
  virtual asio::awaitable<LockInfo> inspect_for_sure(const LockName& lock,
                                                     Wakeup& wakeup) {
    return inspect(lock, wakeup);
  }

  // Every lock of the namespace that is held, waited for or has a last run, and whose
  // name `matches`, sorted by name.
  virtual asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) = 0;

  // The runs of the lock that are in progress (outcome "running", with their duration so
  // far) and the finished ones that are kept (see lock/history.hpp), the last started
  // first. Shared runs and runs in slots are included, and so are leases of acquire
  // (outcome "by hand"). Grants released before anything ran are not.
  virtual asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                        Wakeup& wakeup) = 0;

  // The same for every lock of the namespace that has runs and whose name `matches`.
  virtual asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, NameFilter matches, Wakeup& wakeup);

  // Why the last list(), history() or histories() has left out locks, or runs, that it
  // could not read; empty if it is complete. The messages name what cannot be read.
  virtual std::vector<Failure> left_out() const { return {}; }

  // Reports each event of the watched locks to `sink`, once and in order, until `wakeup`
  // gives up. An expired lease is noticed within a second. Throws Failure if watching
  // cannot begin; later interruptions are reported to `sink` and repaired as soon as
  // possible. A store that keeps nothing reports nothing.
  virtual asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                                      Wakeup& wakeup);
};

class RateLimits {
 public:
  virtual ~RateLimits() = default;

  // Admits the claim if no window of the rate's period then has more than its maximum, by
  // the store's clock, and if no waiter is delayed by it.
  //
  // A claim that is not admitted gets a turn if the turn comes within its longest wait:
  // the earliest moment at which it can be admitted if all waiters before it take their
  // turns. When it asks again from that moment on it is admitted, or gets a later turn if
  // one before it was late. A turn that is not taken within `turn_holds` lapses, and so
  // does the place in the queue; a turn that is a period late no longer delays those
  // behind it.
  //
  // A claim that asks again after it was admitted, because the answer was lost, is
  // admitted only once. The data of a limit expires once it no longer matters. A clock
  // that is set back delays no caller by more than a period.
  virtual asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Gives up the place in the queue, if there is one. The turns of those behind it do not
  // change.
  virtual asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Reads the limit without changing it.
  virtual asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) = 0;

  // Forgets everything about the limit, including its queue: it then admits like a new
  // one, at any rate. Waiters are newcomers when they ask again.
  virtual asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) = 0;
};

// Watches on one connection, and ends with it. Both functions throw Failure.
class WatchSession {
 public:
  WatchSession() = default;
  virtual ~WatchSession() = default;
  WatchSession(const WatchSession&) = delete;
  WatchSession& operator=(const WatchSession&) = delete;

  // Connects. No later event is missed.
  virtual asio::awaitable<void> begin() = 0;

  // Reports the next events to `sink`. Returns from time to time even if there are none.
  virtual asio::awaitable<void> go_on(EventSink& sink) = 0;
};

using NewWatchSession = std::function<std::unique_ptr<WatchSession>()>;

// Implements LockInspector::watch() with a sequence of sessions. When one fails the next
// is started, after a pause that grows while none lasts.
asio::awaitable<void> keep_watching(NewWatchSession new_session, EventSink& sink,
                                    Wakeup& wakeup);

// A finding of `dlock doctor`.
struct Finding {
  enum class Level {
    ok,
    info,     // for information, or could not be checked; locks are not affected
    warning,  // locks work, but can be lost
    error,    // locks do not work
  };
  std::string check;  // "persistence"; the same name whatever the result
  Level level = Level::ok;
  std::string message;  // one line, printable
  std::string advice;   // what to do; empty if there is nothing to do
  bool is_made = true;  // false for a check that our permissions do not allow
};

struct Examination {
  std::vector<Finding> findings;
  std::optional<std::chrono::microseconds> round_trip;
  std::optional<milliseconds> smallest_ttl;  // that works with such a round trip
};

// The most serious level; ok if there are no findings.
Finding::Level worst_of(const std::vector<Finding>& findings);

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
  // freed and handed off in the same step. `dlock_gone` is set if there is no dlock to
  // notify but a run that must be stopped. Repeating the call changes nothing more, but
  // looks again for remaining processes of such runs.
  //
  // By force, every such lease is freed and handed off in the same step, whether or not
  // its command still runs, and the run is recorded as lost (taken_reason()). A holder
  // that is alive learns that its lease is broken as above, at its next renewal at the
  // latest. A store whose leases do not expire ignores that: it knows who is alive.
  virtual asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                            const Break& order,
                                                            Wakeup& wakeup) = 0;

  // Admits `fence` for `resource` unless a greater one was admitted before. `resource` is
  // unrelated to a lock of the same name. An admitted fence is never forgotten, as far as
  // the store's data survives a power failure.
  virtual asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                                 Wakeup& wakeup) = 0;

  // Calls `warn`, once for each message, when a server of several says what most of them
  // contradict, or fails in a way that lasts, and the request succeeds without it.
  virtual void report_complaints(std::function<void(const std::string&)> /*warn*/) {}

  // For a process that exits without destroying the store: says so to a server that would
  // count the session as abandoned. Does not wait.
  virtual void part() {}

  virtual LockInspector& inspector() = 0;

  // Optional features; null if the store does not support them. See values_of() and
  // rates_of().
  virtual ValueStore* values() { return nullptr; }
  virtual RateLimits* rates() { return nullptr; }
};

// A Failure (unsupported): "`url` does not support `what`".
Failure unsupported(const std::string& url, const std::string& what);

// Each throws Failure (unsupported) if the store does not support it.
ValueStore& values_of(Store& store);
RateLimits& rates_of(Store& store);

}  // namespace dlock
