// What a verb adds to a run: `cache` captures the command's output and stores it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "cli/run/report.hpp"
#include "lock/store.hpp"

namespace dlock {

// Called at each step of a run. A Failure thrown by a function here ends the run like one
// of the run's own failures, unless the function's comment says otherwise.
//
// These are not the user's hooks (--on-success and the like); see hooks.hpp.
class RunHooks {
 public:
  virtual ~RunHooks() = default;

  // The descriptor that becomes the command's standard output, and the end of the same
  // pipe that dlock reads, which no other process may keep open. Both are close-on-exec.
  virtual int output() const = 0;
  virtual int output_reader() const = 0;

  // Called once the lock is granted. Returns whether the command needs to run; if not,
  // the lock is released.
  virtual asio::awaitable<bool> is_needed(Store& store, const Claim& claim,
                                          Wakeup& wakeup) = 0;

  // Called if another run counts as this one.
  virtual asio::awaitable<void> joined(const RunInfo& run, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;

  // command_starts() is called before the command starts, command_runs() once it runs,
  // and command_ended() once its process has ended or could not be started. Only
  // command_starts() may fail, by throwing Failure, because a running command must not be
  // abandoned. After command_ended() returns, nothing is watched any more.
  virtual void command_starts(asio::io_context& context) = 0;
  virtual void command_runs() = 0;
  virtual void command_ended() = 0;

  // Called when the only step left is to release the lock. Returns whether the waiters
  // share the result of this run. Does not throw.
  virtual asio::awaitable<bool> settle(const RunResult& result, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;
};

}  // namespace dlock
