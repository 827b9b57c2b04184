// What members of a cluster say of each other. Plain functions on values.
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

// Where "MOVED 3999 127.0.0.1:6381" or "ASK ..." points to; a host that is left out is
// the one that says it. Nothing for what points nowhere.
std::optional<Address> pointed_to(const redis::Reply& error, const Address& by);

// The primaries in the reply to CLUSTER SLOTS, each once, and how many slots they have. A
// host that is left out is the one that says it.
struct Primaries {
  std::vector<Address> addresses;
  unsigned slots = 0;
};
constexpr unsigned all_slots = 16384;
std::optional<Primaries> primaries_from(const redis::Reply& slots, const Address& by);

// How many replicas the one that says it has, by CLUSTER NODES, that most primaries have
// not seen fail. One that it suspects alone counts: cut off from the others it would
// suspect whoever takes its place.
unsigned own_replicas_up(std::string_view nodes);

}  // namespace dlock::redis_cluster
