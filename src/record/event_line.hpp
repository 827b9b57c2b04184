// An event as a line of the file of events of an embedded store, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/event.hpp"

namespace dlock::record {

// With a line break at the end.
std::string line_of(const Event& event);

// Nothing if the line is not an event.
std::optional<Event> event_from(std::string_view line);

}  // namespace dlock::record
