// Watches the entry of a holder, independently of its claimant's requests.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lock/claimant.hpp"
#include "store/etcd/calls.hpp"

namespace dlock::etcd {

// Calls `on_news` when the key is changed or deleted after `revision`. Uses a connection
// of its own to the members of `calls`. Failures are ignored: the next renewal finds the
// same change.
std::unique_ptr<LeaseNews> news_of(const Calls& calls, std::string key,
                                   std::int64_t revision, std::function<void()> on_news);

}  // namespace dlock::etcd
