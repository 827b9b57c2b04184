// The parts of URLs that are specific to Redis, and servers as targets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/target.hpp"
#include "store/url_parts.hpp"

namespace dlock::redis {

constexpr std::uint16_t usual_port = 6379;
constexpr std::uint16_t usual_sentinel_port = 26379;

// The number of a database.
unsigned database_from(std::string_view text);

// As login_from(), server_from(), servers_from() and their inverses. A login without a
// colon is the password, as for redis-cli; see set_login().
void take_login(std::string_view text, Target& target);
Target target_at(std::string_view text, std::uint16_t port_if_none);
std::vector<Target> targets_from(std::string_view list, std::uint16_t port_if_none,
                                 const std::string& what);
std::string target_text(const Target& target, std::uint16_t port_if_none);
std::string targets_text(const std::vector<Target>& targets, std::uint16_t port_if_none);

}  // namespace dlock::redis
