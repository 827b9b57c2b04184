// Parses what members of a cluster report about each other. Plain functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/announced.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis_cluster {

using redis::Address;

// The address in "MOVED 3999 127.0.0.1:6381" or "ASK ..."; `by`, the sender, is used for
// a host that is left out. Nothing for other errors.
std::optional<Address> pointed_to(const redis::Reply& error, const Address& by);

// The primaries in the reply to CLUSTER SLOTS, each once, and how many slots they have.
// `by`, the sender, is used for a host that is left out.
struct Primaries {
  std::vector<Address> addresses;
  unsigned slots = 0;
};
constexpr unsigned all_slots = 16384;
std::optional<Primaries> primaries_from(const redis::Reply& slots, const Address& by);

// How many replicas of the sender of CLUSTER NODES a majority of primaries has not marked
// as failed. A replica that only the sender suspects counts: a primary that is cut off
// would suspect the replica that takes its place.
unsigned own_replicas_up(std::string_view nodes);

}  // namespace dlock::redis_cluster
