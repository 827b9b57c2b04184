#include "store/redis_quorum/merge.hpp"

#include <algorithm>
#include <map>

#include "lock/history.hpp"
#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/party.hpp"

namespace dlock::redis_quorum {
namespace {

bool has_said_how_it_ended(const RunInfo& run) {
  return run.outcome != "running" && run.outcome != "vanished" && run.outcome != by_hand;
}

std::vector<HolderInfo> merged_holders(const std::vector<LockInfo>& told,
                                       std::size_t servers, std::size_t& least_told) {
  struct Told {
    HolderInfo holder;
    std::size_t by = 0;
  };
  std::map<Party, Told> by_party;
  for (const auto& lock : told) {
    for (const auto& holder : lock.holders) {
      auto& one = by_party[party_of(holder)];
      if (one.by++ == 0) one.holder = holder;
      one.holder.broken = one.holder.broken || holder.broken;
      if (holder.expires_in < one.holder.expires_in) {
        one.holder.expires_in = holder.expires_in;
      }
    }
  }
  const auto silent = servers - told.size();
  std::vector<HolderInfo> holders;
  least_told = servers;
  for (auto& [party, one] : by_party) {
    if (one.by + silent < needed(servers)) continue;
    least_told = std::min(least_told, one.by);
    holders.push_back(std::move(one.holder));
  }
  return holders;
}

// In the order of the longest queue, followed by waiters that are only in other queues.
std::vector<WaiterInfo> merged_waiters(const std::vector<LockInfo>& told) {
  auto lines = told;
  std::stable_sort(lines.begin(), lines.end(), [](const LockInfo& a, const LockInfo& b) {
    return a.waiters.size() > b.waiters.size();
  });
  std::vector<WaiterInfo> waiters;
  std::map<std::pair<std::string, pid_t>, std::size_t> shown;
  for (const auto& lock : lines) {
    std::map<std::pair<std::string, pid_t>, std::size_t> here;
    for (const auto& waiter : lock.waiters) {
      // A process can wait more than once.
      const std::pair who(waiter.host, waiter.pid);
      if (++here[who] <= shown[who]) continue;
      ++shown[who];
      waiters.push_back(waiter);
    }
  }
  return waiters;
}

// The last of these runs, each reported by one server.
std::optional<RunInfo> last_of(const std::vector<std::vector<RunInfo>>& runs,
                               std::size_t servers) {
  const auto all = merged_runs(runs, servers);
  if (all.empty()) return std::nullopt;
  return *std::max_element(
      all.begin(), all.end(),
      [](const RunInfo& a, const RunInfo& b) { return a.fence < b.fence; });
}

std::vector<RunInfo> as_list(const std::optional<RunInfo>& run) {
  if (!run) return {};
  return {*run};
}

}  // namespace

std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers) {
  struct Told {
    RunInfo run;
    std::size_t by = 0;
  };
  std::map<Party, Told> by_party;
  for (const auto& runs : told) {
    for (const auto& run : runs) {
      auto& one = by_party[party_of(run)];
      const bool knows_more =
          has_said_how_it_ended(run) && !has_said_how_it_ended(one.run);
      if (one.by++ == 0 || knows_more) one.run = run;
    }
  }
  const auto silent = servers - told.size();
  std::vector<RunInfo> runs;
  for (auto& [party, one] : by_party) {
    const bool is_one =
        has_said_how_it_ended(one.run) || one.by + silent >= needed(servers);
    if (is_one) runs.push_back(std::move(one.run));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const RunInfo& a, const RunInfo& b) {
    return a.started > b.started;
  });
  return runs;
}

LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers) {
  auto lock = told.front();
  std::size_t least_told = 0;
  lock.holders = merged_holders(told, servers, least_told);
  lock.waiters = merged_waiters(told);
  lock.strength.reset();
  if (!lock.holders.empty()) lock.strength = strength(servers, least_told);
  std::vector<std::vector<RunInfo>> last, successes;
  for (const auto& one : told) {
    last.push_back(as_list(one.last_run));
    successes.push_back(as_list(one.last_success));
    lock.known = lock.known || one.known;
    lock.refused = std::max(lock.refused, one.refused);
    lock.superseded = std::max(lock.superseded, one.superseded);
    lock.now = std::max(lock.now, one.now);
    if (!one.holders.empty()) lock.mode = one.mode;
  }
  lock.last_run = last_of(last, servers);
  lock.last_success = last_of(successes, servers);
  lock.slots = 1;
  lock.free = lock.holders.empty() ? 1 : 0;
  return lock;
}

}  // namespace dlock::redis_quorum
