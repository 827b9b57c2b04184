// What the URLs of Redis servers are made of, whether they name one or several.
// Whatever is refused is refused by a Failure (misconfigured) whose message repeats
// nothing of the URL, which may hold a password.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/target.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

constexpr std::uint16_t usual_port = 6379;
constexpr std::uint16_t usual_sentinel_port = 26379;

// Far more than anybody has, and few enough to ask all of them at once.
constexpr std::size_t most_servers = 32;

Failure bad_url(const std::string& why);

void refuse_controls(std::string_view rest);

// The text with each %XX as the byte that it stands for. `what` is for the message: "the
// password".
std::string decoded(std::string_view text, const std::string& what);

// The reverse: printable ASCII. Letters, digits, -._~ and what is in `also_as_it_is`
// stand for themselves.
std::string encoded(std::string_view text, std::string_view also_as_it_is = "");

// The number of a database.
unsigned database_from(std::string_view text);

// What follows the scheme and its colon, cut where its parts end.
struct UrlParts {
  std::optional<std::string_view> login;  // before the last @
  std::string_view servers;
  std::string_view behind;  // from the first of / ? and # on
};
// `form` is for the message: what has to follow the scheme.
UrlParts url_parts(std::string_view rest, const std::string& form);

// Puts user, user:password or :password there, percent-decoded.
void take_login(std::string_view text, Target& target);

// host, host:port, [address] or [address]:port.
Target server_from(std::string_view text, std::uint16_t port_if_none);

// The reverse, without the usual port.
std::string server_text(const Target& server, std::uint16_t port_if_none);

// Servers, separated by commas: 1 to most_servers, all different. Each has the host in
// the one form that is compared: names in small letters, addresses as the system writes
// them. `what` they are is for messages: "sentinel".
std::vector<Target> servers_from(std::string_view list, std::uint16_t port_if_none,
                                 const std::string& what);

std::string servers_text(const std::vector<Target>& servers, std::uint16_t port_if_none);

}  // namespace dlock::redis
