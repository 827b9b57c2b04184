// What is run when all of a run is over: --on-success, --on-failure and --on-busy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "cli/report.hpp"
#include "supervise/signals.hpp"

namespace dlock {

// Which of the hooks hears of a run that went so; nothing if none does.
enum class HookKind { on_success, on_failure, on_busy };
std::optional<HookKind> hook_for(const RunResult& result);

// The option that sets it: "--on-failure".
std::string_view option_of(HookKind kind);

// What the user wants to be run then; empty if nothing.
const std::string& line_for(HookKind kind, const HookLines& lines);

// What it is told of the run, as "NAME=value"; empty where it does not apply.
std::vector<std::string> hook_variables(const RunIdentity& run, const RunResult& result);

struct HookPlan {
  std::string line;                      // for /bin/sh -c
  std::vector<std::string> environment;  // all of it
  std::string input;                     // on its standard input
  // It is ended then: with TERM, and so much later with KILL, all of its process group.
  milliseconds limit{60'000};
  milliseconds kill_after{5'000};
};

struct HookEnd {
  std::string trouble;        // why it did not end well; empty if it did
  std::optional<int> signal;  // that told us to end meanwhile: the hook was ended for it
};

// Runs a hook and waits for its end. With the run over: the lock is given back, and this
// process has no other children. What came of signals before does not count any more.
HookEnd run_hook(const HookPlan& plan, const HeldSignals& held);

}  // namespace dlock
