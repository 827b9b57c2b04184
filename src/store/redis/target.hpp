// One server: its address, and how to log in there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_context.hpp"
#include "store/redis/reply.hpp"
#include "store/store_url.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

struct Target {
  std::string host;  // a name or an address; empty with a path
  std::uint16_t port = 6379;
  std::string path;  // of a unix socket; empty over TCP
  std::optional<net::TlsOptions> tls;
  Login login;
  // How the user sets the password, for messages.
  std::string_view password_options = usual_password_options;
  unsigned database = 0;
  std::string_view announced_by;             // who named its address, if the URL does not
  std::optional<ServerAddress> mapped_from;  // the announced one, if --address-map has it

  ServerAddress address() const { return {host, port}; }

  // Another server with the same login, at the address that a server announced. Its
  // certificate must match an announced name; an announced address has no name to match.
  Target at(const ServerAddress& announced) const;

  // The Failure to connect to it, which says who named its address.
  Failure with_origin(const Failure& failure) const;

  // The server without secrets, for messages: "127.0.0.1:6379", "[::1]:6379", a path.
  std::string shown() const;
};

// The login, TLS and database of the URL, without an address unless it is that of a
// socket.
Target login_target(const StoreUrl& url);

// The servers that the URL names, and the sentinels that it names.
std::vector<Target> targets_of(const StoreUrl& url);
std::vector<Target> sentinels_of(const StoreUrl& url);

// The commands to log in and select the database, to be sent in one write; empty if none
// are needed. `password` is that of this login (Login::secret). Throws Failure for a user
// without a password.
std::vector<std::vector<std::string>> login_commands(
    const Target& target, const std::optional<std::string>& password);

// Throws Failure unless `replies` to those commands are OK: rejected for a refused login,
// misconfigured for a database that does not exist, unreachable for an invalid reply.
void check_login(const Target& target, const std::optional<std::string>& password,
                 const std::vector<Reply>& replies);

// A setting that a server reports in milliseconds, above 0 and at most a day; nothing if
// it is invalid.
std::optional<milliseconds> milliseconds_from(const std::string& text);

}  // namespace dlock::redis
