// Accounts, as /etc/passwd lists them.
//
// The name service switch would load libraries into a static binary and may ask a
// server that hangs; a user it alone knows is shown by number. Not fgetpwent(3): each run
// on a server looks here, and the C library's files are a tenth of what it touches.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// The name of the account, or its number as text.
std::string user_name(uid_t uid);

// The account's home directory; empty if it is not listed.
std::string home_directory(uid_t uid);

struct Account {
  uid_t uid = 0;
  std::string_view name;
  std::string_view home;
};

// What a line of the file says (passwd(5)), as part of it; nothing if it is none of an
// account.
std::optional<Account> account_in(std::string_view line);

}  // namespace dlock
