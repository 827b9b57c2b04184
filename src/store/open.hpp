// From a URL to a store.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <variant>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/etcd/plan.hpp"
#include "store/local/plan.hpp"
#include "store/none/plan.hpp"
#include "store/plan.hpp"
#include "store/redis/plan.hpp"
#include "store/redis_cluster/plan.hpp"
#include "store/redis_quorum/plan.hpp"
#include "store/redis_sentinel/plan.hpp"

namespace dlock {

// A store URL, taken apart but not yet opened.
using StoreUrl = std::variant<local::Plan, none::Plan, redis::Plan, redis_sentinel::Plan,
                              redis_cluster::Plan, redis_quorum::Plan, etcd::Plan>;

// Throws Failure (misconfigured) for a URL that is malformed or of an unknown scheme, and
// says which. What may be a password is not repeated.
StoreUrl parsed_store_url(const std::string& url);

// Puts what was set elsewhere in the place of what the URL says of a login; nothing for
// a store that needs none.
void set_credentials(StoreUrl& url, const Credentials& credentials);

// Whether whoever answers is taken for the store (--tls-insecure).
bool is_insecure(const StoreUrl& url);

StoreFeatures features_of(const StoreUrl& url);

// Whether a lease there ends by the clock if nobody renews it (Store::leases_run_out).
inline bool leases_run_out(const StoreUrl& url) {
  return features_of(url).leases_run_out;
}

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
