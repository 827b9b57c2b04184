// A password that is kept in a file.
#pragma once

#include <string>

namespace dlock {

// The first line of `file`. Throws Failure: misconfigured where there is none, or the
// file is no regular one or too large, rejected where anybody may read or write it.
std::string password_in(const std::string& file);

}  // namespace dlock
