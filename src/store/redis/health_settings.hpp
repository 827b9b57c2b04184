// Judges the settings of a server; see health.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/redis/health.hpp"

namespace dlock::redis {

// "ACL SETUSER USER RULES", quoted so that it can be pasted into a shell behind
// redis-cli, or at its prompt.
std::string granting(const std::string& user, const std::vector<std::string>& rules);

// A value of INFO, CONFIG GET or HELLO; empty if the server did not report it.
std::string field(const Fields& fields, std::string_view name);

// The finding of a check whose value is missing, with the permission that it needs.
Finding not_checked(const char* check, const Facts& facts);

Finding persistence(const Facts& facts);
Finding eviction(const Facts& facts);
Finding replicas(const Facts& facts);

// How many of the permitted connections are in use.
Finding clients(const Facts& facts);

// How many TLS connections the server accepts at once; nothing without TLS, or where the
// server has no such setting.
std::optional<Finding> tls_connections(const Facts& facts);

}  // namespace dlock::redis
