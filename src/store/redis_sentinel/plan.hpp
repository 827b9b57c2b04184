// Redis or Valkey servers of which sentinels say which one is the primary.
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

// The login of a URL is the servers'. What is set for sentinels is the sentinels' alone:
// neither is ever tried in the place of the other.
struct Plan {
  std::vector<redis::Target> sentinels;  // 1 to most_servers, all different
  std::string master;    // the name that the sentinels know the servers by
  redis::Target server;  // how to get into any of these; the host is empty
  Replicas replicas;

  // Of what follows the scheme and its colon:
  //   redis+sentinel://[user[:password]@]host[:port][,...]/MASTER[/db],
  //   rediss+sentinel:// the same over TLS
  // Throws Failure (misconfigured) for what cannot be.
  static Plan parsed(std::string_view scheme, const std::string& rest);

  void set(const Credentials& credentials);
  bool is_insecure() const { return server.tls && server.tls->insecure; }

  // The URL that leads here, without passwords and what is usual anyway. Always printable
  // ASCII.
  std::string url() const;
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::redis_sentinel
