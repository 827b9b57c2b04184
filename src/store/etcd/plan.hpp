// An etcd cluster.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/plan.hpp"

namespace dlock::etcd {

struct Plan {
  EtcdAccess access;

  // Parses what follows the scheme and its colon:
  //   etcd://[user[:password]@]host[:port][,host[:port]...],
  //   etcds:// the same over TLS
  // Throws Failure (misconfigured) if it is invalid.
  static Plan parsed(std::string_view scheme, const std::string& rest);

  void set(const Credentials& credentials);
  bool is_insecure() const { return access.tls && access.tls->insecure; }

  // The URL without passwords and default values. Always printable ASCII.
  std::string url() const;
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::etcd
