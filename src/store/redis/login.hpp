// Logging in to a server and choosing a database.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// What it means that a server answers strangers with NOAUTH only. `options`: where a user
// gives the password.
Failure wants_password(const std::string& server, std::string_view options);

// The commands that it takes, for one write; none if there is nothing to do. Throws
// Failure for a password file that is missing or open to others, and for a user without
// a password.
std::vector<std::vector<std::string>> login_commands(const Target& target);

// Throws Failure unless `replies` to those commands let us in: rejected for a login,
// misconfigured for a database, unreachable if the server has no room for us or answers
// nonsense.
void check_login(const Target& target, const std::vector<Reply>& replies);

}  // namespace dlock::redis
