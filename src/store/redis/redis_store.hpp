// Locks on Redis or Valkey servers, shared by many machines.
//
// The scripts keep the state of a lock and implement the rules of granting
// (scripts/shared/state.lua describes the keys); each call runs one script. The code here
// only sends requests and reads replies: a Route chooses the server, a Node is a server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/redis/limit_record.hpp"
#include "store/redis/redis_inspector.hpp"
#include "store/redis/route.hpp"

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

class RedisRates final : public RateLimits {
 public:
  // `route` must outlive this.
  RedisRates(asio::io_context& context, Route& route)
      : context_(context), route_(route) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

 private:
  asio::io_context& context_;
  Route& route_;
};

class RedisRegisters final : public FenceRegisters {
 public:
  explicit RedisRegisters(Route& route) : route_(route) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Route& route_;
};

class RedisStore final : public Store {
 public:
  // `url` as users see it, without secrets.
  RedisStore(asio::io_context& context, std::string url, std::unique_ptr<Route> route);

  std::string url() const override { return url_; }
  bool leases_expire() const override { return true; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return &values_; }
  RateLimits* rates() override { return &rates_; }
  FenceRegisters* registers() override { return &registers_; }

 private:
  asio::io_context& context_;
  std::string url_;
  std::unique_ptr<Route> route_;
  RedisInspector inspector_;
  RedisValues values_;
  RedisRates rates_;
  RedisRegisters registers_;
};

// As open_store() and examine_store(), for one server.
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis
