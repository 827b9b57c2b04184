// Runs the user's hooks after a run: --on-success, --on-failure and --on-busy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/run/run_result.hpp"
#include "supervise/signals.hpp"

namespace dlock {

// The hook to run after a run with this result; nothing if none applies.
enum class HookKind { on_success, on_failure, on_busy };
std::optional<HookKind> hook_for(const RunResult& result);

// The option that sets it: "--on-failure".
std::string_view option_of(HookKind kind);

// The command line of the hook; empty if it is not set.
const std::string& line_for(HookKind kind, const HookLines& lines);

// The variables that describe the run, as "NAME=value"; the value is empty where it does
// not apply.
std::vector<std::string> hook_variables(const std::string& lock, const RunResult& result);

struct HookPlan {
  std::string line;                      // for /bin/sh -c
  std::vector<std::string> environment;  // the complete environment
  std::string input;                     // on its standard input
  // After `limit` the hook's process group gets SIGTERM, and `kill_after` later SIGKILL.
  milliseconds limit{60'000};
  milliseconds kill_after{5'000};
};

struct HookEnd {
  std::string trouble;  // why the hook failed; empty if it succeeded
  std::optional<int>
      signal;  // a signal that asked dlock to exit, for which the hook was ended
};

// Runs a hook and waits for it to end. The run must be over: the lock is released and
// this process has no other children. Signals that arrived earlier are ignored.
HookEnd run_hook(const HookPlan& plan, const HeldSignals& held);

}  // namespace dlock
