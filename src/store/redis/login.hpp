// Logging in to a server and choosing a database.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// The Failure for a server that replies NOAUTH. `options`: where the user sets the
// password.
Failure password_required(const std::string& server, std::string_view options);

// The commands to log in and select the database, to be sent in one write; empty if none
// are needed. Throws Failure for a password file that is missing or accessible to others,
// and for a user without a password.
std::vector<std::vector<std::string>> login_commands(const Target& target);

// Throws Failure unless `replies` to those commands are OK: rejected for a refused login,
// misconfigured for a database that does not exist, unreachable for an invalid reply.
void check_login(const Target& target, const std::vector<Reply>& replies);

}  // namespace dlock::redis
