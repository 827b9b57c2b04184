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

// A parsed store URL.
using StoreUrl = std::variant<local::Plan, none::Plan, redis::Plan, redis_sentinel::Plan,
                              redis_cluster::Plan, redis_quorum::Plan, etcd::Plan>;

// Throws Failure (misconfigured) if the URL is malformed or its scheme is unknown; the
// message says which, and does not repeat anything that may be a password.
StoreUrl parsed_store_url(const std::string& url);

// Replaces the login in the URL by the one set elsewhere; no effect for a store without a
// login.
void set_credentials(StoreUrl& url, const Credentials& credentials);

// Whether the server's certificate is not verified (--tls-insecure).
bool is_insecure(const StoreUrl& url);

// Whether its servers are used over TLS.
bool uses_tls(const StoreUrl& url);

StoreFeatures features_of(const StoreUrl& url);

// Whether a lease there expires unless it is renewed (Store::leases_expire).
inline bool leases_expire(const StoreUrl& url) { return features_of(url).leases_expire; }

// Examines the store for use with locks of the namespace (dlock doctor). It changes
// nothing there. An unreachable store is a finding, too; each request takes at most
// `timeout`. Throws Failure (exhausted) if this machine lacks the resources to examine
// it.
asio::awaitable<Examination> examine_store(const StoreUrl& url,
                                           const std::string& name_space,
                                           milliseconds timeout,
                                           asio::io_context& context, Wakeup& wakeup);

// Contacts nothing yet. `timeout` is the budget of one operation.
std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context);

}  // namespace dlock
