// The addresses of a cluster's members and the login, from a URL and the options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/tls_context.hpp"
#include "store/store_url.hpp"

namespace dlock::etcd {

struct Access {
  std::vector<ServerAddress> members;  // in the order in which they are tried
  std::optional<net::TlsOptions> tls;  // may contain a client certificate as login
  std::string user;                    // empty: no login
  bool is_user_alone = false;  // what the URL has before the @, perhaps a password
  std::optional<std::string> password;
  std::string password_file;  // read at each login, so that a rotated password is used
};

Access access_of(const StoreUrl& url);

// Throws Failure: misconfigured if the user has no password, and as password_in() does.
std::string password_of(const Access& access);

}  // namespace dlock::etcd
