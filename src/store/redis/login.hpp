// Logging in to a server and choosing a database.
#pragma once

#include <string>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// The commands that it takes, for one write; none if there is nothing to do. Throws
// Failure for a password file that is missing or open to others, and for a user without
// a password.
std::vector<std::vector<std::string>> login_commands(const Target& target);

// Throws Failure unless `replies` to those commands let us in: rejected for a login,
// misconfigured for a database, unreachable if the server has no room for us or answers
// nonsense.
void check_login(const Target& target, const std::vector<Reply>& replies);

}  // namespace dlock::redis
