// From a URL to a store; the only place that names every kind.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/redis/target.hpp"

namespace dlock {

// A store URL, taken apart but not yet opened.
struct StoreUrl {
  enum class Kind { local, none, redis };
  Kind kind = Kind::local;
  std::string path;      // local: absolute, or empty for the default directory
  redis::Target target;  // redis: the server
};

// Throws Failure (misconfigured) for a URL that is malformed, of an unknown scheme, or
// of one that is not built yet, and says which. What may be a password is not repeated.
StoreUrl parsed_store_url(const std::string& url);

// Whether a lease there ends by the clock if nobody renews it (Store::leases_run_out).
bool leases_run_out(const StoreUrl& url);

// What there is to say about the store as locks of the namespace need it. It changes
// nothing there. That it cannot be reached is a finding, too; each question is answered
// within `timeout`. Throws Failure (exhausted) where what it takes to look is short.
asio::awaitable<Examination> examine_store(const StoreUrl& url,
                                           const std::string& name_space,
                                           milliseconds timeout,
                                           asio::io_context& context, Wakeup& wakeup);

// Contacts nothing yet. `timeout` is the budget of one operation.
std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context);

}  // namespace dlock
