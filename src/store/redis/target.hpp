// Where a server is and how to get in, taken apart from a URL and the options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/tls_options.hpp"

namespace dlock::redis {

struct Target {
  std::string host;  // a name or an address; empty with a path
  std::uint16_t port = 6379;
  std::string path;  // of a unix socket; empty over TCP
  std::optional<net::TlsOptions> tls;

  std::string user;  // empty: the default user
  std::optional<std::string> password;
  // Where a user gives it, for messages.
  std::string_view password_options = "--password-file or DLOCK_PASSWORD";
  std::string password_file;  // read anew at each login, so that a rotated one is found
  unsigned database = 0;

  // Another server that is got into in the same way, as those announce it that know it. A
  // name is what its certificate has to say; an address says nothing that one could.
  Target at(const std::string& announced, std::uint16_t at_port) const;

  // The server without secrets, for messages: "127.0.0.1:6379", "[::1]:6379", a path.
  std::string shown() const;
};

}  // namespace dlock::redis
