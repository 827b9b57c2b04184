// What a cache keeps under the name of a lock.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "lock/wakeup.hpp"

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

// What there is to see of a value, but for its bytes.
struct ValueInfo {
  std::size_t size = 0;
  std::optional<milliseconds> age;  // since it was stored, if that is known
  milliseconds fresh_for{0};        // what is left of its ttl
  milliseconds there_for{0};        // until it is gone
};

struct ValueLook {
  std::optional<ValueInfo> value;
  std::string damage;  // as in ValueLookup
};

// What became of a value that was to be stored.
enum class Storing { stored, not_ours };

// Values, as a store may have them.
class ValueStore {
 public:
  virtual ~ValueStore() = default;

  // The value that was stored last under this name, whole, unless it has been forgotten
  // or its lifetime is over. What is damaged is no value, and is said. One that is large
  // comes in pieces, and the store timeout is that of each.
  virtual asio::awaitable<ValueLookup> get(const LockName& lock, Wakeup& wakeup) = 0;

  // As get(), without the bytes: those of a large value may be damaged all the same.
  virtual asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) = 0;

  // Stores a value under the name of the lock in the place of what is there, all of it or
  // nothing, if the lock is this claim's: exclusive, attached, and not kept any more
  // (LeaseKeeper). A lease that can run out lasts its full ttl again afterwards. A
  // Failure leaves what was there. Large values as with get.
  virtual asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                                       Lifetime lifetime, Wakeup& wakeup) = 0;

  // There is no value under this name afterwards. Whoever holds the lock may store one
  // all the same.
  virtual asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) = 0;
};

}  // namespace dlock
