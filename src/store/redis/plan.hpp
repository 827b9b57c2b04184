// One Redis or Valkey server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/plan.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// Replaces the login and the TLS settings from the URL by those set elsewhere. The login
// of redis://NAME@host is the password, unless that is set elsewhere, or NAME is the user
// there: then it is the user, as in a URL that this program has written.
void set_login(Target& target, const Credentials& credentials);

struct Plan {
  Target target;

  // Parses what follows the scheme and its colon. Throws Failure (misconfigured) if it is
  // invalid.
  static Plan parsed(std::string_view scheme, const std::string& rest);

  void set(const Credentials& credentials) { set_login(target, credentials); }
  bool is_insecure() const { return target.tls && target.tls->insecure; }
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::redis
