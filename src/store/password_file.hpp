// Reads a password from a file.
#pragma once

#include <string>

namespace dlock {

// The first line of `file`. Throws Failure: misconfigured if the line is empty or the
// file is not a regular file or too large, rejected if others can read or write it.
std::string password_in(const std::string& file);

}  // namespace dlock
