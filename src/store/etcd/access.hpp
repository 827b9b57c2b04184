// Where the members of a cluster are and how to get in, taken apart from a URL and the
// options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/tls_options.hpp"
#include "store/url_parts.hpp"

namespace dlock::etcd {

struct Access {
  std::vector<ServerAddress> members;  // in the order in which they are tried
  std::optional<net::TlsOptions> tls;  // with the certificate that stands for a user
  std::string user;                    // empty: no login
  std::optional<std::string> password;
  std::string password_file;  // read anew at each login, so that a rotated one is found
};

// Throws Failure (misconfigured) where the user has none, and for a file as password_in()
// says.
std::string password_of(const Access& access);

}  // namespace dlock::etcd
