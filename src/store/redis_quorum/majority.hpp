// How many servers it takes.
#pragma once

#include <cstddef>

namespace dlock::redis_quorum {

// Two sets of so many have a server in common.
constexpr std::size_t needed(std::size_t servers) { return servers / 2 + 1; }

// A set of so many has a server in common with each set of needed().
constexpr std::size_t in_every_majority(std::size_t servers) {
  return servers - needed(servers) + 1;
}

// How many servers may forget a lease that `held` of them keep before others could be
// granted the lock by needed() of them. Below 0 if too few keep it.
constexpr int strength(std::size_t servers, std::size_t held) {
  return static_cast<int>(held + needed(servers)) - static_cast<int>(servers) - 1;
}

}  // namespace dlock::redis_quorum
