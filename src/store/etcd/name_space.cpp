#include "store/etcd/name_space.hpp"

#include <utility>

#include "store/etcd/keys.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

// Keys to read in one step: some 500 KB.
constexpr std::int64_t page = 1000;

// What a namespace may have in memory: some 500,000 keys, which are the runs of more than
// ten thousand locks.
constexpr std::size_t most_bytes = std::size_t{256} << 20;

std::size_t size_of(const KeyValue& pair) {
  return sizeof pair + pair.key.size() + pair.value.size();
}

Failure too_large(const std::string& name_space) {
  return Failure(Failure::Kind::unreachable,
                 "etcd has more keys below " + printable(name_space, 200) +
                     "/ than dlock reads at once (256 MiB): name the lock instead, or "
                     "give other programs another prefix");
}

}  // namespace

std::map<std::string, LockSnapshot> snapshots_from(const std::vector<KeyValue>& pairs,
                                                   const std::string& name_space,
                                                   std::int64_t revision) {
  struct Pairs {
    std::vector<KeyValue> entries;
    std::vector<KeyValue> runs;
  };
  std::map<std::string, Pairs> sorted;
  for (const auto& pair : pairs) {
    const auto parts = parts_of(pair.key, name_space);
    if (!parts) continue;
    auto& of_lock = sorted[parts->name];
    (parts->in_queue ? of_lock.entries : of_lock.runs).push_back(pair);
  }
  std::map<std::string, LockSnapshot> snapshots;
  for (const auto& [name, of_lock] : sorted) {
    const LockName lock{name_space, name};
    auto& snapshot = snapshots[name];
    snapshot.revision = revision;
    snapshot.entries = entries_from(of_lock.entries, queue_prefix(lock));
    snapshot.runs = runs_from(of_lock.runs, runs_prefix(lock));
  }
  return snapshots;
}

asio::awaitable<NameSpace> read_name_space(Calls& calls, std::string name_space,
                                           Clock::time_point until, Wakeup& wakeup) {
  NameSpace found;
  std::vector<KeyValue> pairs;
  RangeRequest request;
  request.key = namespace_prefix(name_space);
  request.range_end = end_of_prefix(request.key);
  request.limit = page;
  std::size_t bytes = 0;
  bool more = true;
  while (more) {
    auto result = co_await calls.range(request, until, wakeup);
    if (found.revision == 0) found.revision = result.revision;
    request.revision = found.revision;
    more = result.more && !result.pairs.empty();
    if (more) request.key = result.pairs.back().key + '\0';
    for (auto& pair : result.pairs) {
      bytes += size_of(pair);
      pairs.push_back(std::move(pair));
    }
    if (bytes > most_bytes) throw too_large(name_space);
  }
  found.snapshots = snapshots_from(pairs, name_space, found.revision);
  co_return found;
}

}  // namespace dlock::etcd
