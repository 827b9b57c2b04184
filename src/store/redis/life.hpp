// The life of a server: from one start to the next.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "util/clock.hpp"

namespace dlock::redis {

struct Life {
  std::string run_id;       // different after each start
  Clock::time_point began;  // at the latest
};

// From the reply to `INFO server` received at `now`; nothing if it lacks the fields.
std::optional<Life> life_from(std::string_view info, Clock::time_point now);

}  // namespace dlock::redis
