// A Redis or Valkey cluster, which distributes the locks over its members by slots.
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

namespace dlock::redis_cluster {

struct Plan {
  // The members to ask first, 1 to most_servers, all different. Login and TLS are the
  // same for every member of the cluster.
  std::vector<redis::Target> seeds;
  Replicas replicas;
  AddressMap addresses;  // of the members that members announce

  // Parses what follows the scheme and its colon:
  //   redis+cluster://[user[:password]@]host[:port][,...],
  //   rediss+cluster:// the same over TLS
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

}  // namespace dlock::redis_cluster
