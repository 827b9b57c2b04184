// Reads a password from a file.
#pragma once

#include <string>

namespace dlock {

// The password in `file`, which may be a pipe: see small_file(). Throws Failure like
// small_file(), as a secret, and like password_from().
std::string password_in(const std::string& file);

// The password in the content of a file: its only line, without the end of the line (\n,
// \r\n or \r) and blank lines after it, and without a byte order mark before it. Blanks
// belong to the password. Throws Failure (misconfigured) without any of the content if
// there is no password, there is a second line, or a NUL byte.
std::string password_from(std::string content);

}  // namespace dlock
