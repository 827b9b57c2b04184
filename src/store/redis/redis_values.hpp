// Cached values on Redis or Valkey servers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lock/value.hpp"
#include "store/redis/route.hpp"
#include "store/redis/value_record.hpp"

namespace dlock::redis {

class RedisValues final : public ValueStore {
 public:
  // `route` must outlive this.
  explicit RedisValues(Route& route) : route_(route) {}

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override;

 private:
  asio::awaitable<std::vector<Reply>> read_fields(const LockName& lock,
                                                  std::span<const char* const> names,
                                                  Wakeup& wakeup);
  asio::awaitable<std::optional<ValueRecord>> look_up(const LockName& lock,
                                                      Wakeup& wakeup);
  asio::awaitable<std::string> read_pieces(const LockName& lock,
                                           const ValueRecord& record, Wakeup& wakeup);
  asio::awaitable<Storing> write_pieces(const Claim& claim, const std::string& bytes,
                                        Wakeup& wakeup);

  Route& route_;
};

}  // namespace dlock::redis
