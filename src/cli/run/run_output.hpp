// What a run writes besides messages: --output, where the command's output goes, with its
// last lines; and --report, a line about the run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/args/options.hpp"
#include "cli/run/locked_run.hpp"
#include "cli/terminal/speaker.hpp"
#include "util/fd.hpp"

namespace dlock {

// The output of one run.
class RunOutput : public OutputCapture {
 public:
  // The last lines, printable; nothing if they are not known.
  virtual std::optional<std::string> last_lines() const = 0;

  // Prints what was kept, each stream on its own, for a run that has failed. Waits for a
  // slow reader, but no more than a minute for one that accepts nothing.
  virtual void print(const Speaker& speaker) const = 0;
};

// Null for --output pass: the command then has dlock's own descriptors. Throws Failure if
// the file cannot be opened, or a pipe not be created. The speaker warns if the file is
// another one when the command starts, and cannot be opened.
std::unique_ptr<RunOutput> output_for(const RunOptions& options, const Speaker& speaker);

// It is opened before anything else happens, so that a file that cannot be written is an
// error before the command runs.
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
