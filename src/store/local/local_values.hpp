// Cached values, stored under the name of a lock.
#pragma once

#include <string>

#include "lock/value.hpp"
#include "store/local/files.hpp"

namespace dlock::local {

class LocalValues final : public ValueStore {
 public:
  // `files` must outlive this.
  explicit LocalValues(Files& files) : files_(files) {}

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override;

 private:
  Files& files_;
};

}  // namespace dlock::local
