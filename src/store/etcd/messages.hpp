// Requests to etcd and its responses as protobuf messages. Plain functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// How many elements (keys, events and the like) a message may have; each takes far more
// memory than bytes in the message, so larger messages are rejected.
constexpr std::size_t most_elements = 200'000;

// The path of a request: "/etcdserverpb.KV/Range".
std::string_view path_of(const Request& request);

std::string encoded(const Request& request);

// The response to `request` in `bytes`; nothing if they are not a valid one. The results
// of a transaction are those of the operations that it executed, in order.
std::optional<Result> decoded(const Request& request, std::string_view bytes);

// The cluster that sent this response, as its header says; 0 if it does not.
std::uint64_t cluster_in(std::string_view bytes);

// The request to create a watch with this id.
std::string encoded(const WatchRequest& request, std::int64_t id);

struct WatchAnswer {
  std::int64_t revision = 0;  // of the store
  std::int64_t id = 0;
  bool created = false;
  bool canceled = false;
  std::int64_t compact_revision = 0;  // not 0: its start revision was compacted
  std::string reason;                 // why it was canceled
  std::vector<KeyChange> events;
};
std::optional<WatchAnswer> decoded_watch(std::string_view bytes);

}  // namespace dlock::etcd
