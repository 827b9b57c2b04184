// A command that is run under a lock, with everything that takes.
#pragma once

#include <exception>
#include <string>

#include "cli/app.hpp"
#include "cli/report.hpp"
#include "cli/run_hooks.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"

namespace dlock {

struct FinishedRun {
  RunResult result;
  std::string store;         // its URL; empty if it did not get that far
  std::exception_ptr error;  // what ended it, where the result does not say
};

// A run that came to nothing by the failure that is being handled.
FinishedRun run_ended_by(const Failure& failure, const std::string& store);

// Asks for the lock, runs the command and gives the lock back; says on standard error
// what there is to say. Without a store open yet, because the guardian has to come first.
// `run_hooks` is of the verb, or null. Throws UsageError for a lease that is too short.
FinishedRun finished_run(const Invocation& invocation, const RunOptions& options,
                         const HeldSignals& held, RunHooks* run_hooks);

}  // namespace dlock
