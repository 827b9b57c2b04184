// Cached values, stored under the name of a lock.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"

namespace dlock {

// How long a value is fresh, and how much longer it is kept after that.
struct Lifetime {
  milliseconds ttl{0};
  milliseconds stale{0};
};

struct Value {
  std::string bytes;
  bool is_fresh = false;  // within its ttl
};

struct ValueLookup {
  std::optional<Value> value;
  // Why the stored value cannot be used, for people; empty if it is not damaged.
  std::string damage;
};

// The answer for a value that is larger than the caller accepts.
inline ValueLookup too_large(std::size_t size, std::size_t most) {
  return {{},
          std::to_string(size) + " bytes are stored, more than " + std::to_string(most) +
              " (--max-size)"};
}

// A value without its bytes, for display.
struct ValueInfo {
  std::size_t size = 0;
  std::optional<milliseconds> age;  // since it was stored, if known
  milliseconds fresh_for{0};        // rest of its ttl
  milliseconds expires_in{0};       // until it is removed
};

struct ValueLook {
  std::optional<ValueInfo> value;
  std::string damage;  // as in ValueLookup
};

// The result of storing a value.
enum class Storing { stored, not_ours };

// Cached values, which a store may support.
class ValueStore {
 public:
  virtual ~ValueStore() = default;

  // The last value stored under this name, unless it was forgotten or its lifetime is
  // over. A value that is damaged, or larger than `most` bytes, is not returned but
  // reported. A large value is read in pieces, each within the store timeout.
  virtual asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                           Wakeup& wakeup) = 0;

  // Like get(), without the bytes. The bytes of a large value may still be damaged.
  virtual asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) = 0;

  // Replaces the value stored under the name of the lock, completely or not at all, if
  // this claim holds the lock: exclusive, attached, and no longer being renewed
  // (LeaseKeeper). A lease that can expire lasts for its full ttl again afterwards. After
  // a Failure the old value is still there. Large values are written as get() reads them.
  virtual asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                                       Lifetime lifetime, Wakeup& wakeup) = 0;

  // Removes the value. A holder of the lock may still store a new one.
  virtual asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) = 0;
};

}  // namespace dlock
