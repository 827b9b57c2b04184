// Builds messages about servers.
#pragma once

#include <string>
#include <string_view>

#include "util/failure.hpp"

namespace dlock::net {

// A reason from a library ("Connection refused") in the form used at the end of our
// messages: with a small first letter.
std::string with_small_letter(std::string reason);

// The text of strerror(3) in the same form.
std::string reason_of(int error_number);

// "; it looks like an SSH server", if the first bytes of a reply are known to be those of
// another kind of server; else empty.
std::string kind_of_server(std::string_view first_bytes);

// A Failure (unreachable): "cannot reach `server`: `why`".
Failure cannot_reach(const std::string& server, const std::string& why);

}  // namespace dlock::net
