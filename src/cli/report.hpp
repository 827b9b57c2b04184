// How a run went, for --report and for the exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/exit_status.hpp"
#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "lock/lease_watcher.hpp"
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

// Each enumerator as the report has it: "not-started".
std::string name_of(Outcome outcome);

struct RunResult {
  Outcome outcome = Outcome::error;
  std::optional<Loss> reason;
  std::optional<bool> is_protected;  // nothing if no command ran
  std::optional<int> exit_code;      // what dlock exits with, or
  std::optional<int> signal;         // what it ends by
  // The command's own, for a run that was lost: it exits with another.
  std::optional<int> command_exit_code;
  std::optional<int> command_signal;
  std::optional<Grant> grant;
  std::optional<milliseconds> waited;
  std::optional<WallTime> started;  // the command
  std::optional<milliseconds> ran;
  std::optional<HolderInfo> holder;  // who was in the way
  std::string message;
};

// What a run was, however it went.
struct RunIdentity {
  std::string lock;
  std::string store;  // its URL; empty if it did not get that far
  std::string host;
  std::string user;
  std::vector<std::string> command;
  std::string label;
};

// What the command ended with: of a run that was lost, its own.
struct CommandEnd {
  std::optional<int> exit_code;
  std::optional<int> signal;
};
CommandEnd reported_end(const RunResult& result);

std::string report_line(const RunIdentity& run, const RunResult& result);

// The file of --report. Opened before anything else is done, so that a name that
// cannot be written is found while nothing has happened yet.
class ReportFile {
 public:
  // Throws Failure (misconfigured). An empty path is no file; "-" is standard error.
  explicit ReportFile(const std::string& path);

  // Whether it could be written, or there is none.
  bool write(const std::string& line);

 private:
  Fd file_;
  bool is_standard_error_ = false;
};

}  // namespace dlock
