// The file of events, for those who watch a local store (dlock watch).
//
// There is no list of watchers: each one locks a byte of the file `sessions`. A process
// that changes a lock asks the kernel whether any such byte is locked, and only then
// appends lines to the file `events`. It holds the mutex of the lock meanwhile, so the
// events of one lock are in the order of its changes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/event.hpp"
#include "store/directory.hpp"
#include "store/local/names.hpp"
#include "store/local/sessions.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// An event as a line of the file, and back; nothing if the line is not an event.
std::string line_of(const Event& event);
std::optional<Event> event_from(std::string_view line);

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

constexpr const char* events_file = "events";

}  // namespace dlock::local
