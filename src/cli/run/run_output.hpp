// What a run writes besides messages: --output, where the command's output goes, with its
// last lines; and --report, a line about the run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/args/options.hpp"
#include "cli/terminal/speaker.hpp"
#include "supervise/spawn.hpp"
#include "util/fd.hpp"

namespace dlock {

// Receives the command's output in dlock's place.
class OutputCapture {
 public:
  virtual ~OutputCapture() = default;

  // All of them are close-on-exec.
  virtual CommandStreams streams() const = 0;

  // command_starts() is called before the command starts, command_runs() once it runs,
  // and command_ended() once its process has ended or could not be started. Only
  // command_starts() may fail, by throwing Failure, because a running command must not be
  // abandoned. After command_ended() returns, nothing is watched any more.
  virtual void command_starts(asio::io_context& context) = 0;
  virtual void command_runs() {}
  virtual void command_ended() {}

  // The last lines, printable; nothing if they are not known.
  virtual std::optional<std::string> last_lines() const { return std::nullopt; }

  // Prints what was kept, each stream on its own, for a run that has failed. Waits for a
  // slow reader, but no more than a minute for one that accepts nothing.
  virtual void print(const Speaker& /*speaker*/) const {}
};

// For an --output that is not dlock's own (OutputChoice::is_own). Throws Failure if the
// file cannot be opened, or a pipe not be created. The speaker warns if the file is
// another one when the command starts, and cannot be opened.
std::unique_ptr<OutputCapture> output_for(const RunOptions& options,
                                          const Speaker& speaker);

// It is opened before anything else happens, so that a file that cannot be written is an
// error before the command runs.
class ReportFile {
 public:
  // Opens the file; "-" is standard error. Throws Failure (misconfigured).
  explicit ReportFile(const std::string& path);

  // Returns false if the line could not be written. Appends it if the file has the output
  // of the command, `output`; otherwise it replaces the file's contents.
  bool write(const std::string& line, int output);

 private:
  Fd file_;
  bool is_standard_error_ = false;
};

}  // namespace dlock
