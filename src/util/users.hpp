// Accounts from /etc/passwd and groups from /etc/group.
//
// The name service switch would load libraries into a static binary and might ask a
// server that hangs; a user that only it knows is shown by number. fgetpwent(3) is not
// used: each run on a server reads the file, and stdio accounts for a tenth of the memory
// that this touches.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// The name of the account, or its number as text.
std::string user_name(uid_t uid);

// The account name of this process. Looked up once, so that it does not delay a waiter
// when its turn comes.
const std::string& own_user();

// The account's home directory; empty if it is not listed.
std::string home_directory(uid_t uid);

// The name of the group, or its number as text.
std::string group_name(gid_t gid);

// Whether the group has no member but root and `uid`: the private group that many systems
// create with each account, or that of root. Not if the files do not list the group or
// one of its members, since then only the name service knows.
bool is_private_group(gid_t gid, uid_t uid, const char* accounts = "/etc/passwd",
                      const char* groups = "/etc/group");

// Whether files show this owner in the place of one that has no number in our user
// namespace.
bool is_unmapped_user(uid_t uid);

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;  // of its primary group
  std::string_view name;
  std::string_view home;
};

// The account in a line of the file (passwd(5)), as views into the line; nothing if the
// line has no account.
std::optional<Account> account_in(std::string_view line);

}  // namespace dlock
