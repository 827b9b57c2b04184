// Requests to etcd and its answers as messages of protobuf. Plain functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// What a message may hold of keys, events and the like; with more of them it is refused,
// for each takes far more memory than bytes on the way.
constexpr std::size_t most_elements = 200'000;

// Where a request goes: "/etcdserverpb.KV/Range".
std::string_view path_of(const Request& request);

std::string encoded(const Request& request);

// What `bytes` answer to `request`; nothing if they are no answer to it. The results of a
// transaction are those of the operations that it had to execute, in their order.
std::optional<Result> decoded(const Request& request, std::string_view bytes);

// Creates a watch that is called `id` in the answers.
std::string encoded(const WatchRequest& request, std::int64_t id);

struct WatchAnswer {
  std::int64_t revision = 0;  // of the store
  std::int64_t id = 0;
  bool created = false;
  bool canceled = false;
  std::int64_t compact_revision = 0;  // not 0: what it should begin with is gone
  std::string reason;                 // why it was canceled
  std::vector<Event> events;
};
std::optional<WatchAnswer> decoded_watch(std::string_view bytes);

}  // namespace dlock::etcd
