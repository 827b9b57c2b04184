#include "lock/event.hpp"

#include <algorithm>
#include <iterator>

namespace dlock {
namespace {

constexpr const char* names[] = {"granted", "queued", "left",  "released",
                                 "expired", "lost",   "broken"};

}  // namespace

const char* event_name(Event::Kind kind) { return names[static_cast<std::size_t>(kind)]; }

std::optional<Event::Kind> event_kind_of(std::string_view name) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Event::Kind>(found - std::begin(names));
}

}  // namespace dlock
