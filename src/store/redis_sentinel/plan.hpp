// Redis or Valkey servers whose primary is named by sentinels.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/plan.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis_sentinel {

// For messages.
constexpr std::string_view announced_by = "the sentinels";

// The login in the URL is for the servers. Sentinels have a login of their own; neither
// is ever used in place of the other.
struct Plan {
  std::vector<redis::Target> sentinels;  // 1 to most_servers, all different
  std::string master;                    // the master name, as in `sentinel monitor`
  redis::Target server;  // the login for any of the servers; the host is empty
  Replicas replicas;
  AddressMap addresses;  // of the servers that the sentinels announce

  // Parses what follows the scheme and its colon:
  //   redis+sentinel://[user[:password]@]host[:port][,...]/MASTER[/db],
  //   rediss+sentinel:// the same over TLS
  // Throws Failure (misconfigured) if it is invalid.
  static Plan parsed(std::string_view scheme, const std::string& rest);

  void set(const Credentials& credentials);
  bool is_insecure() const { return server.tls && server.tls->insecure; }

  // The URL without passwords and default values. Always printable ASCII.
  std::string url() const;
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::redis_sentinel
