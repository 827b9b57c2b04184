// How many servers form a majority.
#pragma once

#include <cstddef>

namespace dlock::redis_quorum {

// Any two sets of this size have a server in common.
constexpr std::size_t needed(std::size_t servers) { return servers / 2 + 1; }

// Any set of this size has a server in common with every set of needed() servers.
constexpr std::size_t in_every_majority(std::size_t servers) {
  return servers - needed(servers) + 1;
}

// How many of the `having` servers that have a lease are marked as broken at least, if a
// break has reached a majority of the servers.
constexpr std::size_t marked_at_least(std::size_t servers, std::size_t having) {
  const auto reached = having + needed(servers);
  return reached > servers ? reached - servers : 1;
}

// How many of the `held` servers that keep a lease may forget it before needed() servers
// could grant the lock to another claim. Negative if too few keep it.
constexpr int strength(std::size_t servers, std::size_t held) {
  return static_cast<int>(held + needed(servers)) - static_cast<int>(servers) - 1;
}

}  // namespace dlock::redis_quorum
