#include "store/local/local_inspector.hpp"

#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "rules/look.hpp"
#include "rules/runs.hpp"
#include "store/local/runs_log.hpp"
#include "util/number.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock::local {

// Text that is not a number stays as it is: the files may contain anything.
void name_user(std::string& user) {
  if (const auto uid = number_in<std::uint32_t>(user)) user = user_name(*uid);
}

namespace {

void name_users(std::vector<RunInfo>& runs) {
  for (auto& run : runs) name_user(run.user);
}

void name_users(LockInfo& info) {
  for (auto& waiter : info.waiters) name_user(waiter.user);
  if (info.last_run) name_user(info.last_run->user);
  if (info.last_success) name_user(info.last_success->user);
}

// A lock as the log of earlier boots describes it.
LockInfo info_from(const History& history, const LockName& lock) {
  LockInfo info;
  info.lock = lock;
  info.now = wall_now();
  const auto last = history.last_runs.find(lock);
  if (last != history.last_runs.end()) info.last_run = last->second;
  const auto runs = history.runs.find(lock);
  const auto past = history.past.find(lock);
  info.known = runs != history.runs.end();
  if (!info.known) return info;
  info.last_success = last_success_of(runs->second, past == history.past.end()
                                                        ? std::nullopt
                                                        : past->second.last_success);
  name_users(info);
  return info;
}

}  // namespace

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

asio::awaitable<LockInfo> LocalInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  return files_.repeated(wakeup, [this, lock]() -> asio::awaitable<LockInfo> {
    if (!files_.open_to_look()) co_return info_from({}, lock);
    if (files_.has_folder()) co_return info_of_lock(lock);
    co_return info_from(RunsLog(files_.directory()).read(), lock);
  });
}

LockInfo LocalInspector::info_of_lock(const LockName& lock) const {
  return files_.taken_from(lock, [&](const State& state) {
    auto info = rules::info_of(state, lock, Moment::now(), files_.sessions());
    complete(info.holders, state);
    name_users(info);
    return info;
  });
}

asio::awaitable<std::vector<LockInfo>> LocalInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  return files_.repeated(
      wakeup, [this, name_space, matches]() -> asio::awaitable<std::vector<LockInfo>> {
        std::vector<LockInfo> locks;
        left_out_.clear();
        if (!files_.open_to_look()) co_return locks;
        if (!files_.has_folder()) {
          const auto history = RunsLog(files_.directory()).read();
          for (const auto& [lock, run] : history.last_runs) {
            if (lock.name_space != name_space || !matches(lock.name)) continue;
            locks.push_back(info_from(history, lock));
          }
          co_return locks;
        }
        read_each(name_space, matches, [&](const LockName& lock) {
          auto info = info_of_lock(lock);
          if (info.holders.empty() && info.waiters.empty() && !info.last_run) return;
          locks.push_back(std::move(info));
        });
        co_return locks;
      });
}

// Leaves out the locks that cannot be read.
void LocalInspector::read_each(const std::string& name_space,
                               const std::function<bool(const std::string&)>& matches,
                               const std::function<void(const LockName&)>& read) {
  auto found = files_.locks_of(name_space, matches);
  left_out_ = std::move(found.unreadable);
  for (const auto& lock : found.locks) {
    try {
      read(lock);
    } catch (const Failure& failure) {
      if (!is_about_one_lock(failure)) throw;
      left_out_.push_back(failure);
    }
  }
}

asio::awaitable<std::vector<RunInfo>> LocalInspector::history(const LockName& lock,
                                                              Wakeup& wakeup) {
  return files_.repeated(wakeup, [this, lock]() -> asio::awaitable<std::vector<RunInfo>> {
    if (!files_.open_to_look()) co_return std::vector<RunInfo>{};
    if (files_.has_folder()) co_return runs_of_lock(lock);
    auto of_locks = RunsLog(files_.directory()).read().runs;
    auto runs = as_history(std::move(of_locks[lock]), wall_now());
    name_users(runs);
    co_return runs;
  });
}

std::vector<RunInfo> LocalInspector::runs_of_lock(const LockName& lock) const {
  auto runs = files_.taken_from(lock, [&](const State& state) {
    auto found = rules::runs_of_holders(state, Moment::now(), files_.sessions());
    found.insert(found.end(), state.runs.begin(), state.runs.end());
    return found;
  });
  runs = as_history(std::move(runs), wall_now());
  name_users(runs);
  return runs;
}

asio::awaitable<std::vector<LockHistory>> LocalInspector::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  return files_.repeated(
      wakeup, [this, name_space, matches]() -> asio::awaitable<std::vector<LockHistory>> {
        std::vector<LockHistory> found;
        left_out_.clear();
        if (!files_.open_to_look()) co_return found;
        const auto add = [&](const LockName& lock, std::vector<RunInfo> runs) {
          if (!runs.empty()) found.push_back({lock, std::move(runs), wall_now()});
        };
        if (files_.has_folder()) {
          read_each(name_space, matches,
                    [&](const LockName& lock) { add(lock, runs_of_lock(lock)); });
          co_return found;
        }
        for (auto& [lock, runs] : RunsLog(files_.directory()).read().runs) {
          if (lock.name_space != name_space || !matches(lock.name)) continue;
          name_users(runs);
          add(lock, as_history(std::move(runs), wall_now()));
        }
        co_return found;
      });
}

}  // namespace dlock::local
