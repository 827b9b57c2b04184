// Runs the user's hooks: --on-start beside the command, and --on-success, --on-failure
// and --on-busy after the run.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/run/run_result.hpp"
#include "cli/terminal/speaker.hpp"
#include "supervise/signals.hpp"
#include "util/fd.hpp"

namespace dlock {

// A hook after a run: its option, and where its command line is.
struct AfterHook {
  const char* option;
  std::string HookLines::*line;
};
inline constexpr AfterHook success_hook{"--on-success", &HookLines::on_success};
inline constexpr AfterHook failure_hook{"--on-failure", &HookLines::on_failure};
inline constexpr AfterHook busy_hook{"--on-busy", &HookLines::on_busy};

// The hook to run after a run with this result; null if none applies.
const AfterHook* hook_for(const RunResult& result);

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
  // If this is set, the hook does not start unless that process is still the parent.
  pid_t parent = 0;
};

struct HookEnd {
  std::string trouble;  // why the hook failed; empty if it succeeded
  std::optional<int>
      signal;  // a signal that asked dlock to exit, for which the hook was killed
};

// Runs a hook and waits for it to end. The run must be over: the lock is released and
// this process has no other children. Signals that arrived earlier are ignored.
HookEnd run_hook(const HookPlan& plan, const HeldSignals& held);

// The hook of --on-start, which runs beside the command, in a separate process.
//
// That process is forked before the lock is requested: it has nothing of the store open,
// and the command does not wait for a fork. It leads its own group, so signals of
// the terminal are for the command. It is the parent of whatever the hook leaves behind
// for as long as dlock lives, so nothing of the hook is ever taken for a process of the
// command. If dlock dies, the hook is killed.
class StartHook {
 public:
  // Forks, with all signals blocked. If that fails, the hook will not run, which is a
  // warning. The new process keeps nothing of the command's output open.
  StartHook(const std::string& line, const CommandStreams& output,
            const HeldSignals& held, const Speaker& speaker);
  ~StartHook();
  StartHook(const StartHook&) = delete;
  StartHook& operator=(const StartHook&) = delete;

  // Starts the hook with this environment and input. Waits for nothing.
  void start(const std::vector<std::string>& environment, const std::string& input);

  // Waits until a hook that was started has ended: a little more than its time limit at
  // most. A failure has been said by then.
  void await_end();

 private:
  [[noreturn]] void serve(const std::string& line, const HeldSignals& held) const;
  HookPlan read_plan(const std::string& line) const;
  void warn(const std::string& trouble) const;

  const Speaker& speaker_;
  Fd plan_;     // a file in memory that both processes have
  Fd channel_;  // to the other one
  pid_t dlock_ = ::getpid();
  pid_t process_ = 0;
  bool is_busy_ = false;  // with the hook
};

}  // namespace dlock
