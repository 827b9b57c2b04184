#include "store/redis_quorum/quorum_inspector.hpp"

#include <map>

#include "store/redis_quorum/ask_majority.hpp"
#include "store/redis_quorum/merge.hpp"

namespace dlock::redis_quorum {
namespace {

// A list of many locks takes several requests to each server.
constexpr milliseconds list_takes{60'000};

}  // namespace

asio::awaitable<LockInfo> QuorumInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  const auto members = members_;
  const auto look = [members, lock](std::size_t number, Wakeup& own) {
    return members[number]->store().inspector().inspect(lock, own);
  };
  const auto told =
      co_await ask_majority<LockInfo>(members_, look, timeout_, *complaints_, wakeup);
  co_return merged(told, members_.size());
}

asio::awaitable<std::vector<LockInfo>> QuorumInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  using Locks = std::vector<LockInfo>;
  const auto members = members_;
  const auto look = [members, name_space, matches](std::size_t number, Wakeup& own) {
    return members[number]->store().inspector().list(name_space, matches, own);
  };
  const auto told =
      co_await ask_majority<Locks>(members_, look, list_takes, *complaints_, wakeup);
  // A server that does not list a lock that another one lists reports it as free.
  std::map<LockName, std::vector<LockInfo>> by_name;
  for (const auto& locks : told) {
    for (const auto& lock : locks) by_name[lock.lock].push_back(lock);
  }
  Locks all;
  for (auto& [name, locks] : by_name) {
    LockInfo free;
    free.lock = name;
    locks.resize(told.size(), free);
    auto lock = merged(locks, members_.size());
    const bool is_shown = !lock.holders.empty() || !lock.waiters.empty() || lock.last_run;
    if (is_shown) all.push_back(std::move(lock));
  }
  co_return all;
}

asio::awaitable<std::vector<RunInfo>> QuorumInspector::history(const LockName& lock,
                                                               Wakeup& wakeup) {
  using Runs = std::vector<RunInfo>;
  const auto members = members_;
  const auto look = [members, lock](std::size_t number, Wakeup& own) {
    return members[number]->store().inspector().history(lock, own);
  };
  const auto told =
      co_await ask_majority<Runs>(members_, look, timeout_, *complaints_, wakeup);
  co_return merged_runs(told, members_.size());
}

asio::awaitable<std::vector<LockHistory>> QuorumInspector::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  using Histories = std::vector<LockHistory>;
  const auto members = members_;
  const auto look = [members, name_space, matches](std::size_t number, Wakeup& own) {
    return members[number]->store().inspector().histories(name_space, matches, own);
  };
  const auto told =
      co_await ask_majority<Histories>(members_, look, list_takes, *complaints_, wakeup);
  std::map<LockName, std::vector<std::vector<RunInfo>>> by_name;
  WallTime now{};
  for (const auto& histories : told) {
    for (const auto& one : histories) {
      by_name[one.lock].push_back(one.runs);
      now = std::max(now, one.now);
    }
  }
  Histories all;
  for (auto& [name, runs] : by_name) {
    runs.resize(told.size());
    LockHistory history{name, merged_runs(runs, members_.size()), now};
    if (!history.runs.empty()) all.push_back(std::move(history));
  }
  co_return all;
}

}  // namespace dlock::redis_quorum
