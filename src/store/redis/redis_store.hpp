// Locks on Redis or Valkey servers, shared by many machines.
//
// The scripts keep the state of a lock and implement the rules of granting
// (scripts/shared/state.lua describes the keys); each call runs one script. The code here
// only sends requests and reads replies: a Route chooses the server, a Node is a server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/redis/redis_inspector.hpp"
#include "store/redis/redis_rates.hpp"
#include "store/redis/redis_values.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

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

// The store of one server.
std::unique_ptr<Store> store_of(const Target& target, milliseconds timeout,
                                asio::io_context& context);

}  // namespace dlock::redis
