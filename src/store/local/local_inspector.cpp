#include "store/local/local_inspector.hpp"

#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "rules/look.hpp"
#include "rules/runs.hpp"
#include "store/local/runs_log.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock::local {

void name_user(std::string& user) {
  user = user_name(static_cast<uid_t>(std::stoul(user)));
}

void complete(std::vector<HolderInfo>& holders, const State& state) {
  for (auto& shown : holders) {
    name_user(shown.user);
    const auto holder =
        std::find_if(state.holders.begin(), state.holders.end(),
                     [&](const Holder& h) { return h.fence == shown.fence; });
    if (!shown.attached || holder->command == 0) continue;
    if (dlock_is_gone(*holder)) {
      shown.dlock_gone = true;
      shown.pid = holder->command;
    }
  }
}

asio::awaitable<LockInfo> LocalInspector::inspect(const LockName& lock, Wakeup&) {
  LockInfo info;
  info.lock = lock;
  if (!files_.open_to_look()) co_return info;
  if (files_.has_folder()) co_return info_of_lock(lock);
  const auto history = RunsLog(files_.directory()).read();
  const auto last = history.last_runs.find(lock);
  if (last != history.last_runs.end()) info.last_run = last->second;
  co_return info;
}

LockInfo LocalInspector::info_of_lock(const LockName& lock) const {
  return files_.taken_from(lock, [&](const State& state) {
    auto info = rules::info_of(state, lock, Moment::now(), files_.gate());
    complete(info.holders, state);
    for (auto& waiter : info.waiters) name_user(waiter.user);
    return info;
  });
}

asio::awaitable<std::vector<LockInfo>> LocalInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup&) {
  std::vector<LockInfo> locks;
  if (!files_.open_to_look()) co_return locks;
  if (!files_.has_folder()) {
    for (const auto& [lock, run] : RunsLog(files_.directory()).read().last_runs) {
      if (lock.name_space != name_space || !matches(lock.name)) continue;
      auto& info = locks.emplace_back();
      info.lock = lock;
      info.last_run = run;
    }
    co_return locks;
  }
  for (const auto& lock : files_.locks_of(name_space, matches)) {
    auto info = info_of_lock(lock);
    if (info.holders.empty() && info.waiters.empty() && !info.last_run) continue;
    locks.push_back(std::move(info));
  }
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> LocalInspector::history(const LockName& lock,
                                                              Wakeup&) {
  if (!files_.open_to_look()) co_return std::vector<RunInfo>{};
  if (!files_.has_folder()) {
    auto of_locks = RunsLog(files_.directory()).read().runs;
    co_return as_history(std::move(of_locks[lock]), wall_now());
  }
  auto runs = files_.taken_from(lock, [&](const State& state) {
    auto found = rules::runs_of_holders(state, Moment::now(), files_.gate());
    found.insert(found.end(), state.runs.begin(), state.runs.end());
    return found;
  });
  co_return as_history(std::move(runs), wall_now());
}

}  // namespace dlock::local
