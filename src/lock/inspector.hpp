// Queries about the locks of a store.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "lock/event.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "util/failure.hpp"

namespace dlock {

struct LockHistory {
  LockName lock;
  std::vector<RunInfo> runs;
  WallTime now{};  // by the store's clock
};

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
  virtual asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) = 0;

  // The runs of the lock that are in progress (outcome "running", with their duration so
  // far) and the finished ones that are kept (see lock/history.hpp), the last started
  // first. Shared runs and runs in slots are included, and so are leases acquired by hand
  // (outcome "by hand"). Grants released before anything ran are not.
  virtual asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                        Wakeup& wakeup) = 0;

  // The same for every lock of the namespace that has runs and whose name `matches`.
  virtual asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup);

  // Why the last list() or histories() has left out locks that it could not read; empty
  // if it is complete. The messages name what cannot be read.
  virtual std::vector<Failure> left_out() const { return {}; }

  // Reports each event of the watched locks to `sink`, once and in order, until `wakeup`
  // gives up. An expired lease is noticed within a second. Throws Failure if watching
  // cannot begin; later interruptions are reported to `sink` and repaired as soon as
  // possible. A store that keeps nothing reports nothing.
  virtual asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                                      Wakeup& wakeup);
};

}  // namespace dlock
