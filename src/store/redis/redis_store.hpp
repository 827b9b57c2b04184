// Locks on Redis or Valkey servers, shared by many machines.
//
// The scripts keep the state of a lock and implement the rules of granting
// (scripts/shared/state.lua describes the keys); each call runs one script. The code here
// only sends requests and reads replies: a Route chooses the server, a Node is a server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "rules/limit.hpp"
#include "store/redis/redis_inspector.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

// The member of the limit's sets for a claim: its token, pid and host.
std::string member_of(const RateClaim& claim);

// The state of a limit at a moment of the server's clock.
struct KeptLimit {
  rules::LimitState state;
  Clock::time_point now;
};

// From the reply of look_at_limit.lua; nothing if dlock did not write the record. Waiters
// of older versions of dlock have no name.
std::optional<KeptLimit> kept_limit_from(const Reply& reply);

// A larger value is sent in pieces of this size.
constexpr std::size_t value_piece = 256u << 10;

// The fields to request for a look at a value.
constexpr const char* value_info_fields[] = {"size", "stale", "lives"};

struct ValueRecord {
  std::string fence;  // of the run that stored it; part of the key of the data
  std::size_t size = 0;
  std::string sum;
  std::string data;  // unless the value is in pieces
  bool is_fresh = false;

  bool is_in_pieces() const { return size > value_piece; }
};

// The fields to request, in this order.
constexpr const char* value_fields[] = {"fence", "size", "sum", "stale", "data"};

// The checksum of a value, as it is stored.
std::string sum_of(const std::string& bytes);

// From the replies to HMGET of these fields and PTTL of the same key. Nothing if there is
// no value, or dlock did not write it.
std::optional<ValueRecord> value_record_from(const Reply& fields, const Reply& left);

// The same for value_info_fields. A value stored by an older version of dlock does not
// contain its full lifetime, and so has no age.
std::optional<ValueInfo> value_info_from(const Reply& fields, const Reply& left);

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
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return &values_; }
  RateLimits* rates() override { return &rates_; }

 private:
  asio::io_context& context_;
  std::string url_;
  std::unique_ptr<Route> route_;
  RedisInspector inspector_;
  RedisValues values_;
  RedisRates rates_;
};

// As open_store() and examine_store(), for one server.
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis
