// What a cache keeps under the name of a lock.
#pragma once

#include <optional>
#include <string>

#include "lock/clock.hpp"

namespace dlock {

// For how long a value is good, and for how much longer it is there all the same.
struct Lifetime {
  milliseconds ttl{0};
  milliseconds stale{0};
};

struct Value {
  std::string bytes;
  bool is_fresh = false;  // its ttl is not over
};

struct ValueLookup {
  std::optional<Value> value;
  // Why something that is there is no value, for people; empty if nothing is wrong.
  std::string damage;
};

// What became of a value that was to be stored.
enum class Storing { stored, not_ours };

}  // namespace dlock
