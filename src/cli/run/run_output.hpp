// --output of run: where the command's output goes, and its last lines.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/args/options.hpp"
#include "cli/run/locked_run.hpp"
#include "cli/terminal/speaker.hpp"

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

}  // namespace dlock
