// The result of a run, for --report and for the exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/args/exit_status.hpp"
#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

enum class Outcome {
  ran,
  busy,
  superseded,
  deduplicated,
  lost,
  unavailable,
  timeout,
  not_started,
  interrupted,
  error
};

// The outcome as written in the report: "not-started".
std::string name_of(Outcome outcome);

struct RunResult {
  Outcome outcome = Outcome::error;
  std::optional<Loss> reason;
  std::optional<bool> is_protected;  // nothing if no command ran
  std::optional<int> exit_code;      // the exit code of dlock, or
  std::optional<int> signal;         // the signal that ends it
  // The command's own exit code or signal if it ended and dlock exits with another code:
  // the run was lost, or timed out.
  std::optional<int> command_exit_code;
  std::optional<int> command_signal;
  std::optional<Grant> grant;
  std::optional<milliseconds> waited;
  std::optional<WallTime> started;  // the command
  std::optional<milliseconds> ran;
  std::optional<HolderInfo> holder;  // who held the lock
  std::string message;
};

// What identifies a run, whatever its result.
struct RunIdentity {
  std::string lock;
  std::string store;  // its URL; empty if the store was not opened
  std::string host;
  std::string user;
  std::vector<std::string> command;
  std::string label;
};

// The exit code or signal to report: the command's own if the run was lost or timed out.
struct CommandEnd {
  std::optional<int> exit_code;
  std::optional<int> signal;
};
CommandEnd reported_end(const RunResult& result);

std::string report_line(const RunIdentity& run, const RunResult& result);

// The file of --report. It is opened before anything else happens, so that a file that
// cannot be written is an error before the command runs.
class ReportFile {
 public:
  // Opens the file. Throws Failure (misconfigured). An empty path means no report; "-" is
  // standard error.
  explicit ReportFile(const std::string& path);

  // Returns false if the line could not be written.
  bool write(const std::string& line);

 private:
  Fd file_;
  bool is_standard_error_ = false;
};

}  // namespace dlock
