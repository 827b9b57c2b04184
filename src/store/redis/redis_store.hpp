// Locks on Redis or Valkey servers, shared by many machines.
//
// The scripts keep the state of a lock and implement the rules of granting
// (scripts/shared/state.lua describes the keys); each call runs one script. The code here
// only sends requests and reads replies: a Route chooses the server, a Node is a server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "rules/limit.hpp"
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

// From the reply of look_at_limit.lua; nothing if dlock did not write the record.
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

// From the replies to HMGET of these fields and PTTL of the same key. Nothing if there is
// no value, or dlock did not write it.
std::optional<ValueRecord> value_record_from(const Reply& fields, const Reply& left);

// The same for value_info_fields.
std::optional<ValueInfo> value_info_from(const Reply& fields, const Reply& left);

// Asks the servers that `route` finds; `url` as users see it, without secrets.
std::unique_ptr<Store> store_of(asio::io_context& context, std::string url,
                                std::unique_ptr<Route> route);

// As open_store() and examine_store(), for one server.
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis
