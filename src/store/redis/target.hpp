// The address of a server and the login, from a URL and the options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/tls_options.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

struct Target {
  std::string host;  // a name or an address; empty with a path
  std::uint16_t port = 6379;
  std::string path;  // of a unix socket; empty over TCP
  std::optional<net::TlsOptions> tls;

  std::string user;  // empty: the default user
  std::optional<std::string> password;
  bool is_login_alone = false;  // the password is what the URL has before @, all of it
  // How the user sets it, for messages.
  std::string_view password_options = "--password-file or DLOCK_PASSWORD";
  std::string password_file;  // read at each login, so that a rotated password is used
  unsigned database = 0;
  std::string_view announced_by;  // who named its address, if the URL does not

  // Another server with the same login, at the address that a server announced. Its
  // certificate must match an announced name; an announced address has no name to match.
  Target at(const std::string& announced, std::uint16_t at_port) const;

  // The Failure to connect to it, which says who named its address.
  Failure with_origin(const Failure& failure) const;

  // The server without secrets, for messages: "127.0.0.1:6379", "[::1]:6379", a path.
  std::string shown() const;
};

}  // namespace dlock::redis
