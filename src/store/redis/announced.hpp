// Addresses and settings that servers report about each other.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "store/address_map.hpp"
#include "store/redis/target.hpp"
#include "util/clock.hpp"

namespace dlock::redis {

// The address of a server, as another server announces it.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  auto operator<=>(const Address&) const = default;
};

// The address to use in its place.
inline Address used_for(Address announced, const AddressMap& map) {
  auto used = map.used_for({std::move(announced.host), announced.port});
  return {std::move(used.host), used.port};
}

inline Address address_of(const Target& target) { return {target.host, target.port}; }

// A setting in milliseconds, above 0 and at most a day; nothing if it is invalid.
std::optional<milliseconds> milliseconds_from(const std::string& text);

}  // namespace dlock::redis
