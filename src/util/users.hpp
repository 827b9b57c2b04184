// Accounts, as /etc/passwd lists them.
//
// The name service switch would load libraries into a static binary and may ask a
// server that hangs; a user it alone knows is shown by number.
#pragma once

#include <sys/types.h>

#include <string>

namespace dlock {

// The name of the account, or its number as text.
std::string user_name(uid_t uid);

// The account's home directory; empty if it is not listed.
std::string home_directory(uid_t uid);

}  // namespace dlock
