// The file `runs.jsonl`: starts and ends of runs, and detached grants, one line of JSON
// each.
//
// It outlives the boot that the state folder is named after: from it a new boot learns
// the last runs and the fences that were given out. People can grep it. Who may write to
// it may write anything: of a long file the end is read, and lines that cannot be right
// are passed over.
#pragma once

#include <string>

#include "store/local/directory.hpp"
#include "store/local/run_lines.hpp"

namespace dlock::local {

// The file. Lines are added without the gate: each is a write of its own, and those that
// come while the file is being shortened are not lost.
class RunsLog {
 public:
  explicit RunsLog(const Directory& directory) : directory_(directory) {}

  // Opens it for a start line that is written elsewhere, ended line before it or not.
  // Throws Failure.
  Fd open_for_note(std::string& before);

  // Adds whole lines. Throws Failure.
  enum class Length { usual, too_long };
  Length append(const std::string& lines);

  // Keeps the file bounded; under upkeep_gate. Nothing if another one did it already.
  // Throws Failure.
  void shorten();

  History read() const;
  std::string text() const;

 private:
  const Directory& directory_;
};

}  // namespace dlock::local
