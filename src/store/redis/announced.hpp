// What servers say of each other, in values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "lock/clock.hpp"
#include "store/redis/target.hpp"

namespace dlock::redis {

// Where a server is, as another one announces it.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  auto operator<=>(const Address&) const = default;
};

inline Address address_of(const Target& target) { return {target.host, target.port}; }

// A setting in milliseconds, above 0 and a day at most; nothing if it is none.
std::optional<milliseconds> milliseconds_from(const std::string& text);

}  // namespace dlock::redis
