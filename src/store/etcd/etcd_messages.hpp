// The requests to etcd and its responses as plain values, and as protobuf messages. The
// names are those of etcd's API, whose documentation explains them.
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
  std::vector<KeyValue> pairs;
  bool more = false;       // than the limit
  std::int64_t count = 0;  // whatever the limit
};

struct PutRequest {
  std::string key;
  std::string value;
  std::int64_t lease = 0;
};
struct PutResult {};

struct DeleteRequest {
  std::string key;
  std::string range_end;
};
struct DeleteResult {};

// A condition on a key, or on each key of a range. For a key that does not exist, each
// number is 0, and its value equals nothing.
struct Compare {
  enum class Target { create_revision = 1, mod_revision = 2, value = 3 };
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
  std::int64_t id = 0;   // 0: the cluster chooses it, a new one for each request
  std::int64_t ttl = 0;  // seconds
};
struct LeaseGrantResult {
  bool exists = false;  // a lease with that id existed already; it is unchanged
  std::int64_t id = 0;
  std::int64_t ttl = 0;  // seconds; the cluster may grant more than requested
  // Of the reply; EtcdCalls sets it to 0 unless the lease was surely granted in it.
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
  std::int64_t ttl = 0;        // seconds from now; 0: it no longer exists
  std::uint64_t term = 0;
};

struct LeaseTimeToLiveRequest {
  std::int64_t id = 0;
};
struct LeaseTimeToLiveResult {
  std::int64_t ttl = 0;  // seconds that are left; -1: it no longer exists
};

struct StatusRequest {};
struct StatusResult {
  std::uint64_t member = 0;
  std::uint64_t leader = 0;  // 0: none
  std::string version;
  std::int64_t size = 0;  // bytes of the database
};

struct AlarmsRequest {};
struct Alarm {
  enum class Kind { none, no_space, corrupt, other };
  Kind kind = Kind::none;
};
struct AlarmsResult {
  std::vector<Alarm> alarms;
};

struct MemberListRequest {};
struct ClusterMember {
  bool is_learner = false;
};
struct MemberListResult {
  std::vector<ClusterMember> members;
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
};

struct KeyChange {
  enum class Kind { put, deletion };

  Kind kind = Kind::put;
  // For a deletion only the key, and the revision of the deletion as `mod_revision`.
  KeyValue pair;
};

// How many elements (keys, events and the like) a message may have; each takes far more
// memory than bytes in the message, so larger messages are rejected.
constexpr std::size_t most_elements = 200'000;

// The path of a request, "/etcdserverpb.KV/Range", and what is sent there.
std::string_view path_of(const Request& request);
std::string encoded(const Request& request);

// The response to `request` in `bytes`; nothing if they are not a valid one. The results
// of a transaction are those of the operations that it executed, in order.
std::optional<Result> decoded(const Request& request, std::string_view bytes);

// The cluster that sent this response, and the term of its leader by then, as its header
// says; 0 if it does not.
std::uint64_t cluster_in(std::string_view bytes);
std::uint64_t term_in(std::string_view bytes);

// The request to create the only watch of a stream.
std::string encoded(const WatchRequest& request);

struct WatchAnswer {
  std::int64_t revision = 0;  // of the store
  bool created = false;
  bool canceled = false;
  std::int64_t compact_revision = 0;  // not 0: its start revision was compacted
  std::string reason;                 // why it was canceled
  std::vector<KeyChange> events;
};
std::optional<WatchAnswer> decoded_watch(std::string_view bytes);

}  // namespace dlock::etcd
