// Where it is told what happens to locks, for those who watch a local store.
//
// Nobody keeps a list of who watches: each has a byte of the file `sessions` locked, so
// whoever changes a lock asks the kernel whether anybody does, and only then adds lines
// to the file `events`. That is done under the gate of the lock, so those of one lock are
// in the order of its changes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/event.hpp"
#include "store/local/directory.hpp"
#include "store/local/names.hpp"
#include "store/local/sessions.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// A line of the file, and back; nothing for what is none.
std::string line_of(const Event& event);
std::optional<Event> event_from(std::string_view line);

// Adds lines to the file, and keeps it bounded: under the gate of their lock. That it
// cannot is no failure.
void publish(const Directory& directory, Gate& gate, const std::vector<Event>& events);

// Reads the file from its present end on.
class EventReader {
 public:
  // Creates the file if there is none. Throws Failure.
  explicit EventReader(const Directory& directory);

  // What has been added since. Nothing if that cannot be known any more: the file was
  // replaced more than once, or removed.
  std::optional<std::vector<Event>> read();

  // Whether the last read() went over to another file.
  bool was_replaced() const { return was_replaced_; }

 private:
  bool read_lines(std::vector<Event>& events);

  const Directory& directory_;
  Fd file_;
  off_t at_ = 0;
  bool was_replaced_ = false;
  std::string rest_;  // of a line whose end has not come yet
};

constexpr const char* events_file = "events";

}  // namespace dlock::local
