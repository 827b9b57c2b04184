// What is heard of the entry of a holder, beside whatever its claimant asks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lock/claimant.hpp"
#include "store/etcd/calls.hpp"

namespace dlock::etcd {

// Has `heard` called when the key is changed or deleted after `revision`. Over a
// connection of its own, to the members that `calls` may ask. Nothing that fails matters:
// the next renewal finds the same.
std::unique_ptr<LeaseNews> news_of(const Calls& calls, std::string key,
                                   std::int64_t revision, std::function<void()> heard);

}  // namespace dlock::etcd
