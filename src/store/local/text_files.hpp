// The files of text in the directory of a store.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/history.hpp"
#include "lock/store.hpp"
#include "record/run_lines.hpp"
#include "store/directory.hpp"
#include "store/local/record_file.hpp"
#include "store/local/sessions.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The file `runs.jsonl`: starts and ends of runs, and detached grants, one line of JSON
// each.
//
// It outlives the boot: after a reboot dlock learns from it the last runs and the fences
// already granted. People can grep it. Anyone with write access can write anything to it:
// only the end of a long file is read, and invalid lines are skipped.
//
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

  record::History read() const;
  std::string text() const;

 private:
  const Directory& directory_;
};

// The file `events`, for those who watch a store (dlock watch).
//
// There is no list of watchers: each one locks a byte of the file `sessions`. A process
// that changes a lock asks the kernel whether any such byte is locked, and only then
// appends lines. It holds the mutex of the lock meanwhile, so the events of one lock are
// in the order of its changes.
constexpr const char* events_file = "events";

// Appends lines to the file and keeps its size bounded. The caller holds the mutex of the
// lock. A failure to write is ignored.
void publish(const Directory& directory, SessionsFile& sessions,
             const std::vector<Event>& events);

// Reads the events that are appended to the file after this object was created.
class EventReader {
 public:
  // Creates the file if there is none. Throws Failure.
  explicit EventReader(const Directory& directory);

  // The events appended since the last call. Nothing if events may have been missed: the
  // file was replaced more than once, or removed.
  std::optional<std::vector<Event>> read();

  // Whether the last read() switched to a new file.
  bool was_replaced() const { return was_replaced_; }

 private:
  bool read_lines(std::vector<Event>& events);

  const Directory& directory_;
  Fd file_;
  off_t at_ = 0;
  bool was_replaced_ = false;
  std::string rest_;  // the beginning of an incomplete line
};

// The file `fences`: the greatest fence admitted for each resource, by name; unused
// resources are absent.
//
// Unlike the state of the locks, it must survive a reboot and a power failure: it is a
// separate file, synced, and replaced as a whole.
using FencesAdmitted = std::map<LockName, Fence>;

// The registers as text, one line each, followed by a checksum.
std::string registers_text(const FencesAdmitted& fences);

// The inverse; nothing if `text` is not what registers_text wrote.
std::optional<FencesAdmitted> registers_from(std::string_view text);

// The caller holds registers_mutex.
class Registers {
 public:
  explicit Registers(const Directory& directory) : directory_(directory) {}

  // Admits `fence` for `resource` unless a greater one was admitted before. An admitted
  // fence is on disk when this returns. Throws Failure if the file is damaged or cannot
  // be written; then nothing has changed.
  Admission admit(const LockName& resource, Fence fence);

  // Throws Failure if the file cannot be read or is damaged.
  void check() const { read(); }

 private:
  FencesAdmitted read() const;
  void replace(const std::string& text);

  const Directory& directory_;
};

}  // namespace dlock::local
