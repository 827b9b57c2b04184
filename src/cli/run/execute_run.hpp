#pragma once

#include <exception>
#include <string>

#include "cli/run/locked_run.hpp"

namespace dlock {

struct FinishedRun {
  RunResult result;
  std::string store;  // its URL; empty if the run failed before the store was opened
  std::exception_ptr
      error;  // the error that ended the run, if the result does not contain it
};

// The result of a run that failed with the exception being handled, `failure`.
FinishedRun run_ended_by(const Failure& failure, const std::string& store);

// Acquires the lock, runs the command and releases the lock, printing messages on
// standard error. The store must not be open yet, because the guardian has to be forked
// first. `additions` has to outlive the process. Throws UsageError if the ttl is too
// short.
FinishedRun execute_run(const Invocation& invocation, const RunOptions& options,
                        const HeldSignals& held, const RunAdditions& additions);

}  // namespace dlock
