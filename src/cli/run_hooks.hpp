// What a verb has to do around the command of a run, besides the run itself.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "cli/report.hpp"
#include "lock/store.hpp"

namespace dlock {

// Told of each step while it happens, and asked what follows. A Failure ends the run as
// one of the run's own would, unless it says otherwise.
class RunHooks {
 public:
  virtual ~RunHooks() = default;

  // The descriptor that the command has as its standard output, and one of ours that
  // belongs to it, which no other process is to keep open. Both close-on-exec.
  virtual int output() const = 0;
  virtual int output_reader() const = 0;

  // The lock is ours. Whether the command is to run; else the lock is given back.
  virtual asio::awaitable<bool> is_needed(Store& store, const Claim& claim,
                                          Wakeup& wakeup) = 0;

  // Another run counts as this one.
  virtual asio::awaitable<void> joined(const RunInfo& run, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;

  // The command is about to start, from here on it runs, and its process has ended (or
  // never started after all). Whatever can fail is done by the first, which throws
  // Failure: a command that runs is not left alone. Nothing is watched any more when the
  // last returns.
  virtual void command_starts(asio::io_context& context) = 0;
  virtual void command_runs() = 0;
  virtual void command_ended() = 0;

  // Nothing is left of the run but to give the lock back. Whether those who wait for it
  // have run with this one. Throws nothing.
  virtual asio::awaitable<bool> settle(const RunResult& result, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;
};

}  // namespace dlock
