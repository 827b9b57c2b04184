// From a URL to a store.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/store_url.hpp"

namespace dlock {

// Throws Failure (misconfigured) if the URL is malformed or its scheme is unknown; the
// message says which, and does not repeat anything that may be a password.
StoreUrl parsed_store_url(const std::string& url);

// Examines the store for use with locks of the namespace (dlock doctor). It changes
// nothing there. An unreachable store is also a finding. Throws Failure (exhausted) if
// this machine lacks the resources to examine it.
asio::awaitable<Examination> examine_store(const ExaminationOrder& order);

// Contacts nothing yet. `timeout` is the budget of one operation.
std::unique_ptr<Store> open_store(const StoreUrl& url, milliseconds timeout,
                                  asio::io_context& context);

}  // namespace dlock
