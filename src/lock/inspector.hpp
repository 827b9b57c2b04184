// A look at the locks of a store.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "lock/event.hpp"
#include "lock/lease.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

struct LockHistory {
  LockName lock;
  std::vector<RunInfo> runs;
  WallTime now{};  // by the store's clock
};

// Nothing here changes what it looks at.
class LockInspector {
 public:
  virtual ~LockInspector() = default;

  // The lock as it is now; a lock nobody ever used is free.
  virtual asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) = 0;

  // Every lock of the namespace that is held, awaited or has a last run and whose
  // name `matches`, by name.
  virtual asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) = 0;

  // The runs of the lock that are going on (outcome "running", duration so far), and
  // those that are over as far as they are kept: see lock/history.hpp. The last that
  // started comes first. Shared runs and runs in slots are among them, and what was
  // granted by hand (outcome "by hand"); what was given back before anything ran is not.
  virtual asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                        Wakeup& wakeup) = 0;

  // The same of every lock of the namespace that has any and whose name `matches`.
  virtual asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup);

  // Tells `sink` of each event of the locks that are watched, once and in their order,
  // until `wakeup` gives up. A lease that runs out is noticed within a second. Throws
  // Failure when it cannot even begin; an interruption after that is told, and mended as
  // soon as possible. A store that remembers nothing has nothing to tell.
  virtual asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                                      Wakeup& wakeup);
};

}  // namespace dlock
