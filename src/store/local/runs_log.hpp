// The file `runs.jsonl`: starts and ends of runs, and detached grants, one line of JSON
// each.
//
// It outlives the boot: after a reboot dlock learns from it the last runs and the fences
// already granted. People can grep it. Anyone with write access can write anything to it:
// only the end of a long file is read, and invalid lines are skipped.
#pragma once

#include <string>

#include "store/directory.hpp"
#include "store/local/run_lines.hpp"

namespace dlock::local {

// Lines are appended without a mutex: each is a single write, and none is lost while the
// file is being shortened.
class RunsLog {
 public:
  explicit RunsLog(const Directory& directory) : directory_(directory) {}

  // Opens the file for a start line that another process writes; `before` is its
  // beginning, and gets a line break in front if the last line is incomplete. Throws
  // Failure.
  Fd open_for_note(std::string& before);

  // Appends whole lines. Throws Failure.
  enum class Length { usual, too_long };
  Length append(const std::string& lines);

  // Shortens the file unless another process already has. The caller holds upkeep_mutex.
  // Throws Failure.
  void shorten();

  History read() const;
  std::string text() const;

 private:
  const Directory& directory_;
};

}  // namespace dlock::local
