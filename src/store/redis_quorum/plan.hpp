// A quorum of independent Redis or Valkey servers: the holder of a lock is the claim to
// which a majority of them has granted it.
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

namespace dlock::redis_quorum {

constexpr std::size_t least_servers = 3;
constexpr std::size_t most_servers = 9;

struct Plan {
  std::vector<redis::Target> servers;  // all different, with the same login
  QuorumTerms terms;

  // Parses what follows the scheme and its colon:
  //   redis+quorum://[user[:password]@]host[:port],host[:port],host[:port][,...][/db],
  //   rediss+quorum:// the same over TLS
  // Throws Failure (misconfigured) if it is invalid.
  static Plan parsed(std::string_view scheme, const std::string& rest);

  void set(const Credentials& credentials);
  bool is_insecure() const;

  // The URL without passwords and default values. Always printable ASCII.
  std::string url() const;
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::redis_quorum
