// What messages about a server are put together from.
#pragma once

#include <string>

#include "util/failure.hpp"

namespace dlock::net {

// A reason from elsewhere ("Connection refused") as the end of a line of ours.
std::string with_small_letter(std::string reason);

// What strerror(3) says, likewise.
std::string reason_of(int error_number);

// Unreachable: "cannot reach `server`: `why`".
Failure cannot_reach(const std::string& server, const std::string& why);

}  // namespace dlock::net
