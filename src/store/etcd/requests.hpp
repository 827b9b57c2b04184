// The requests to etcd and its responses as plain values. The names are those of etcd's
// API, whose documentation explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dlock::etcd {

struct KeyValue {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t version = 0;
  std::int64_t lease = 0;  // 0: none

  bool operator==(const KeyValue&) const = default;
};

// The end of the range of all keys that begin with `prefix`; if it is empty, of all keys.
std::string end_of_prefix(std::string_view prefix);

struct RangeRequest {
  std::string key;
  std::string range_end;      // empty: the one key; see end_of_prefix()
  std::int64_t limit = 0;     // 0: all of them
  std::int64_t revision = 0;  // as of then; 0: now
  bool keys_only = false;
};
struct RangeResult {
  std::int64_t revision = 0;  // of the store when it answered
  std::uint64_t term = 0;     // of the leader that the member followed then
  std::vector<KeyValue> pairs;
  bool more = false;       // than the limit
  std::int64_t count = 0;  // whatever the limit
};

struct PutRequest {
  std::string key;
  std::string value;
  std::int64_t lease = 0;
  bool prev_kv = false;  // return the previous pair
  bool ignore_value = false;
  bool ignore_lease = false;
};
struct PutResult {
  std::optional<KeyValue> previous;
};

struct DeleteRequest {
  std::string key;
  std::string range_end;
  bool prev_kv = false;
};
struct DeleteResult {
  std::int64_t deleted = 0;
  std::vector<KeyValue> previous;
};

// A condition on a key, or on each key of a range. For a key that does not exist, each
// number is 0, and its value equals nothing.
struct Compare {
  enum class Target { version, create_revision, mod_revision, value, lease };
  enum class Result { equal, greater, less, not_equal };

  std::string key;
  std::string range_end;
  Target target = Target::create_revision;
  Result result = Result::equal;
  std::int64_t number = 0;  // what it is compared with,
  std::string value;        // or this if the target is the value
};

using Operation = std::variant<PutRequest, RangeRequest, DeleteRequest>;
using OperationResult = std::variant<PutResult, RangeResult, DeleteResult>;

struct TxnRequest {
  std::vector<Compare> conditions;  // all of them
  std::vector<Operation> then;      // if they hold
  std::vector<Operation> otherwise;
};
struct TxnResult {
  bool succeeded = false;  // the conditions held
  // The lease of a put does not exist, so nothing was done.
  bool lease_gone = false;
  std::int64_t revision = 0;
  std::uint64_t term = 0;
  std::vector<OperationResult> results;
};

struct LeaseGrantRequest {
  std::int64_t id = 0;
  std::int64_t ttl = 0;  // seconds
};
struct LeaseGrantResult {
  bool exists = false;   // a lease with that id existed already; it is unchanged
  std::int64_t ttl = 0;  // seconds; the cluster may grant more than requested
  std::uint64_t term = 0;
};

struct LeaseRevokeRequest {
  std::int64_t id = 0;
};
struct LeaseRevokeResult {
  bool was_there = true;
};

struct LeaseKeepAliveRequest {
  std::int64_t id = 0;
};
struct LeaseKeepAliveResult {
  bool is_unanswered = false;  // what is between ends the call without a reply
  std::int64_t ttl = 0;        // seconds from now; 0: the lease is gone
  std::uint64_t term = 0;
};

struct LeaseTimeToLiveRequest {
  std::int64_t id = 0;
};
struct LeaseTimeToLiveResult {
  std::int64_t ttl = 0;  // seconds that are left; -1: the lease is gone
};

struct StatusRequest {};
struct StatusResult {
  std::uint64_t member = 0;
  std::uint64_t leader = 0;  // 0: none
  std::uint64_t term = 0;
  std::string version;
  std::int64_t size = 0;  // bytes of the database
  bool is_learner = false;
  std::vector<std::string> errors;
};

struct AlarmsRequest {};
struct Alarm {
  enum class Kind { none, no_space, corrupt, other };
  std::uint64_t member = 0;
  Kind kind = Kind::none;
};
struct AlarmsResult {
  std::vector<Alarm> alarms;
};

struct MemberListRequest {};
struct Member {
  std::uint64_t id = 0;
  std::string name;  // empty: it has never been started
  bool is_learner = false;
};
struct MemberListResult {
  std::vector<Member> members;
};

struct AuthenticateRequest {
  std::string user;
  std::string password;
};
struct AuthenticateResult {
  std::string token;  // empty: the cluster requires no login
};

using Request =
    std::variant<RangeRequest, TxnRequest, LeaseGrantRequest, LeaseRevokeRequest,
                 LeaseKeepAliveRequest, LeaseTimeToLiveRequest, StatusRequest,
                 AlarmsRequest, MemberListRequest, AuthenticateRequest>;
// In the same order.
using Result = std::variant<RangeResult, TxnResult, LeaseGrantResult, LeaseRevokeResult,
                            LeaseKeepAliveResult, LeaseTimeToLiveResult, StatusResult,
                            AlarmsResult, MemberListResult, AuthenticateResult>;

struct WatchRequest {
  std::string key;
  std::string range_end;
  std::int64_t start_revision = 0;  // report events from then on; 0: from now on
  bool no_put = false;
  bool no_delete = false;
  bool prev_kv = false;
};

struct KeyChange {
  enum class Kind { put, deletion };

  Kind kind = Kind::put;
  // For a deletion only the key, and the revision of the deletion as `mod_revision`.
  KeyValue pair;
  std::optional<KeyValue> previous;
};

}  // namespace dlock::etcd
