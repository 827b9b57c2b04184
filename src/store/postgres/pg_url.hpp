// URLs of PostgreSQL: the parameters that libpq has for them, and what it takes from its
// surroundings if they leave something open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/store_url.hpp"

namespace dlock::postgres {

constexpr std::uint16_t usual_port = 5432;

// Where distributions put the socket. Not /tmp, in which everyone could put one.
constexpr const char* usual_directories[] = {"/run/postgresql", "/var/run/postgresql"};

// What libpq looks at besides the URL.
struct PgSurroundings {
  std::function<std::string(const char*)> variable;  // empty: not set
  std::function<bool(const std::string&)> is_there;  // whether a file is
  std::string user;                                  // of this process
  std::string home;                                  // its directory
  std::string directory;                             // the working directory
};

// Puts the parameters into the URL: `host`, `user` and their like where they belong, the
// others into its `parameters`. Those of libpq that mean nothing to dlock are dropped,
// and those of other programs go to StoreUrl::ignore().
TakeParameters take_parameters;

// The time that `connect_timeout`, or PGCONNECT_TIMEOUT, allows; nothing: no limit.
UsualTimeout connect_timeout;

// The URL with everything that it leaves open: from the variables of libpq, else as psql
// has it: the socket of this machine, the user's name, a database of that name. Paths are
// absolute. Appends what it has found in variables to `found`. Throws Failure
// (misconfigured) for a variable that has an invalid value, for PGSERVICE, and
// for variables that demand a check that is not made here.
StoreUrl completed(StoreUrl url, const PgSurroundings& surroundings,
                   std::vector<OutsideSetting>* found = nullptr);

// Whether dlock's own options say what to trust, or whom to expect: then it is verified.
inline bool is_verified_by_options(const StoreUrl& url) {
  return url.tls && (!url.tls->ca.empty() || !url.tls->name.empty());
}

// A parameter of the URL; empty if it is not set.
std::string parameter_of(const StoreUrl& url, const char* name);

// The addresses of `hostaddr`, as many as there are servers, or none.
std::vector<ServerAddress> addresses_of(const StoreUrl& url);

}  // namespace dlock::postgres
