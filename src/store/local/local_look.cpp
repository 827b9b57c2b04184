// LocalStore: what there is to see, and whom to take a lock from. To look takes no gate,
// so nobody who looks keeps anybody from changing a lock, or has to wait for one who
// does.
#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "store/local/local_store.hpp"
#include "store/local/state_folder.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::local {
namespace {

// How often a lock is looked at again that changes meanwhile.
constexpr int most_looks = 20;

// The rules know accounts by number only.
void name_user(std::string& user) {
  user = user_name(static_cast<uid_t>(std::stoul(user)));
}

}  // namespace

LocalStore::Look LocalStore::look_at(const LockName& lock) const {
  RecordFile file(*folder_, key_of(lock, Kept::lock).file, RecordFile::Access::read);
  auto state = state_in(file, lock);
  recall_commands(state, lock);
  return {std::move(file), std::move(state)};
}

// What `take` finds in the state of the lock, and in what the kernel says of those who
// are in it. One who ended between the two would be taken for dead, so a state that has
// changed meanwhile is not believed.
template <typename Take>
auto LocalStore::taken_from(const LockName& lock, Take take) const {
  for (int looks = 1;; ++looks) {
    const auto look = look_at(lock);
    auto taken = take(look.state);
    const bool is_quiet = look.state.holders.empty() && look.state.waiters.empty();
    if (is_quiet || looks == most_looks || !look.file.has_changed()) return taken;
  }
}

// What the rules cannot know: names of accounts, and whether a dlock is still there.
void LocalStore::complete(std::vector<HolderInfo>& holders, const State& state) {
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

asio::awaitable<std::vector<Broken>> LocalStore::break_leases(
    const LockName& lock, const std::vector<Fence>& fences, Wakeup& wakeup) {
  if (!open_to_look() || !folder_) co_return std::vector<Broken>{};
  // What was opened for a look cannot be locked.
  gate_.emplace(*directory_, true);

  std::vector<Holder> holders;
  Consequences consequences;
  Moment moment;
  {
    auto change = co_await begin_change(lock, wakeup);
    moment = Moment::now();
    holders = rules::break_leases(change.state, fences, moment, *gate_, consequences);
    for (const auto& run : consequences.vanished) note_past_run(change.state, run);
    commit(change, lock, {std::nullopt, std::nullopt, fences});
    // Each dlock that holds a lock for longer than a moment watches its file.
    if (!holders.empty()) change.file.touch();
  }
  tell(consequences);
  co_await log_ends(lock, consequences.vanished, wakeup);

  std::vector<Broken> broken;
  for (const auto& holder : holders) {
    auto& added = broken.emplace_back();
    added.holder = info_of(holder, moment);
    name_user(added.holder.user);
    if (holder.party.session == 0 || !dlock_is_gone(holder)) continue;
    added.holder.dlock_gone = true;
    if (holder.command != 0) added.holder.pid = holder.command;
    added.processes = gate_->processes_of(holder);
  }
  co_return broken;
}

asio::awaitable<LockInfo> LocalStore::inspect(const LockName& lock, Wakeup&) {
  LockInfo info;
  info.lock = lock;
  if (!open_to_look()) co_return info;
  if (folder_) co_return info_of_lock(lock);
  const auto history = RunsLog(*directory_).read();
  const auto last = history.last_runs.find(lock);
  if (last != history.last_runs.end()) info.last_run = last->second;
  co_return info;
}

LockInfo LocalStore::info_of_lock(const LockName& lock) const {
  return taken_from(lock, [&](const State& state) {
    auto info = info_of(state, lock, Moment::now(), *gate_);
    complete(info.holders, state);
    for (auto& waiter : info.waiters) name_user(waiter.user);
    return info;
  });
}

asio::awaitable<std::vector<LockInfo>> LocalStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup&) {
  std::vector<LockInfo> locks;
  if (!open_to_look()) co_return locks;
  if (!folder_) {
    for (const auto& [lock, run] : RunsLog(*directory_).read().last_runs) {
      if (lock.name_space != name_space || !matches(lock.name)) continue;
      auto& info = locks.emplace_back();
      info.lock = lock;
      info.last_run = run;
    }
    co_return locks;
  }
  for (const auto& lock : locks_of(name_space, matches)) {
    auto info = info_of_lock(lock);
    if (info.holders.empty() && info.waiters.empty() && !info.last_run) continue;
    locks.push_back(std::move(info));
  }
  co_return locks;
}

// By name.
std::vector<LockName> LocalStore::locks_of(
    const std::string& name_space,
    const std::function<bool(const std::string&)>& matches) const {
  std::vector<LockName> locks;
  for (const auto& file : folder_->names()) {
    if (!is_file_of(Kept::lock, file)) continue;
    const RecordFile record(*folder_, file, RecordFile::Access::read);
    if (!record.exists()) continue;  // dropped just now
    const auto named = named_in(record.payload());
    if (!named || key_of(named->name, Kept::lock).file != file) {
      throw damaged(folder_->path_of(file), "damaged (it is not the state of its lock)");
    }
    if (named->name.name_space == name_space && matches(named->name.name)) {
      locks.push_back(named->name);
    }
  }
  std::sort(locks.begin(), locks.end());
  return locks;
}

asio::awaitable<std::vector<RunInfo>> LocalStore::history(const LockName& lock, Wakeup&) {
  if (!open_to_look()) co_return std::vector<RunInfo>{};
  if (!folder_) {
    auto of_locks = RunsLog(*directory_).read().runs;
    co_return as_history(std::move(of_locks[lock]), wall_now());
  }
  auto runs = taken_from(lock, [&](const State& state) {
    auto found = runs_of_holders(state, Moment::now(), *gate_);
    found.insert(found.end(), state.runs.begin(), state.runs.end());
    return found;
  });
  co_return as_history(std::move(runs), wall_now());
}

}  // namespace dlock::local
