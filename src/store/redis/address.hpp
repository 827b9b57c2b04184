// Parses Redis URLs, and writes them without secrets.
#pragma once

#include <string>
#include <string_view>

#include "store/redis/target.hpp"

namespace dlock::redis {

// Parses a URL. `scheme` is redis, rediss or redis+unix; `rest` is the text after its
// colon:
//   redis://[user[:password]@]host[:port][/db], rediss:// the same over TLS,
//   redis+unix:/path.sock[?db=N]
// User, password and path are percent-decoded. Throws Failure (misconfigured) for
// anything else; its message repeats nothing of the URL, which may contain a password.
Target target_from(std::string_view scheme, std::string_view rest);

// The URL of `target`, without the password and without default values. Always printable
// ASCII.
std::string url_of(const Target& target);

}  // namespace dlock::redis
