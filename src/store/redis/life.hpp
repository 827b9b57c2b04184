// From one start of a server to the next.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/clock.hpp"

namespace dlock::redis {

struct Life {
  std::string run_id;       // another one after each start
  Clock::time_point began;  // at the latest
};

// As `INFO server` tells of it at `now`; nothing if it does not.
std::optional<Life> life_from(std::string_view info, Clock::time_point now);

}  // namespace dlock::redis
