#include "store/etcd/name_space.hpp"

#include <utility>

#include "store/etcd/keys.hpp"

namespace dlock::etcd {
namespace {

// Keys that are read in one step: some 500 KB.
constexpr std::int64_t page = 1000;

}  // namespace

std::map<std::string, Line> lines_from(const std::vector<KeyValue>& pairs,
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
    (parts->in_line ? of_lock.entries : of_lock.runs).push_back(pair);
  }
  std::map<std::string, Line> lines;
  for (const auto& [name, of_lock] : sorted) {
    const LockName lock{name_space, name};
    auto& line = lines[name];
    line.revision = revision;
    line.entries = entries_from(of_lock.entries, line_of(lock));
    line.runs = runs_from(of_lock.runs, runs_of(lock));
  }
  return lines;
}

asio::awaitable<NameSpace> read_name_space(Calls& calls, std::string name_space,
                                           Clock::time_point until, Wakeup& wakeup) {
  NameSpace found;
  std::vector<KeyValue> pairs;
  RangeRequest request;
  request.key = all_of(name_space);
  request.range_end = end_of_prefix(request.key);
  request.limit = page;
  bool more = true;
  while (more) {
    auto result = co_await calls.range(request, until, wakeup);
    if (found.revision == 0) found.revision = result.revision;
    request.revision = found.revision;
    more = result.more && !result.pairs.empty();
    if (more) request.key = result.pairs.back().key + '\0';
    for (auto& pair : result.pairs) pairs.push_back(std::move(pair));
  }
  found.lines = lines_from(pairs, name_space, found.revision);
  co_return found;
}

}  // namespace dlock::etcd
