// LocalStore: what there is to see, and whom to take a lock from.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "store/local/keys.hpp"
#include "store/local/local_store.hpp"
#include "store/local/run_records.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::local {
namespace {

// The rules know accounts by number only.
void name_user(std::string& user) {
  user = user_name(static_cast<uid_t>(std::stoul(user)));
}

}  // namespace

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

void LocalStore::complete(LockInfo& info, const State& state) {
  complete(info.holders, state);
  for (auto& waiter : info.waiters) name_user(waiter.user);
}

asio::awaitable<std::vector<Broken>> LocalStore::break_leases(
    const LockName& lock, const std::vector<Fence>& fences, Wakeup& wakeup) {
  open(Directory::Missing::accept);
  if (!gate_ || !gate_->exists()) co_return std::vector<Broken>{};
  // What was opened for a look cannot be written to.
  database_.reset();
  gate_.emplace(*directory_, true);

  std::vector<Holder> holders;
  Consequences consequences;
  Moment moment;
  {
    const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
    open_database(Database::Access::write);
    Transaction transaction(*database_, Database::Access::give_back);
    auto state = load_to_change(transaction, lock);
    moment = Moment::now();
    holders = dlock::local::break_leases(state, fences, moment, *gate_, consequences);
    keep_runs(transaction, lock, consequences.vanished);
    store(transaction, lock, state, {std::nullopt, std::nullopt, fences});
  }
  tell(consequences);
  // Each dlock that holds a lock for longer than a moment watches this file.
  if (!holders.empty()) ::futimens(gate_->fd(), nullptr);
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

asio::awaitable<LockInfo> LocalStore::inspect(const LockName& lock, Wakeup& wakeup) {
  LockInfo info;
  info.lock = lock;
  open(Directory::Missing::accept);
  if (!gate_ || !gate_->exists()) co_return info;
  const Turn turn = co_await take_turn(Gate::Access::read, wakeup);
  co_return look_at(lock);
}

LockInfo LocalStore::look_at(const LockName& lock) {
  open_database(Database::Access::read);
  if (!database_) {
    // Nobody came since the boot.
    LockInfo info;
    info.lock = lock;
    const auto history = RunsLog(*directory_).read();
    const auto last = history.last_runs.find(lock);
    if (last != history.last_runs.end()) info.last_run = last->second;
    return info;
  }
  Transaction transaction(*database_, Database::Access::read);
  const auto state = load(transaction, lock);
  auto info = info_of(state, lock, Moment::now(), *gate_);
  complete(info, state);
  return info;
}

asio::awaitable<std::vector<LockInfo>> LocalStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  open(Directory::Missing::accept);
  if (!gate_ || !gate_->exists()) co_return std::vector<LockInfo>{};
  const Turn turn = co_await take_turn(Gate::Access::read, wakeup);
  co_return look_at_all(name_space, matches);
}

std::vector<LockInfo> LocalStore::look_at_all(
    const std::string& name_space,
    const std::function<bool(const std::string&)>& matches) {
  std::vector<LockInfo> locks;
  open_database(Database::Access::read);
  if (!database_) {
    for (const auto& [lock, run] : RunsLog(*directory_).read().last_runs) {
      if (lock.name_space != name_space || !matches(lock.name)) continue;
      auto& info = locks.emplace_back();
      info.lock = lock;
      info.last_run = run;
    }
    return locks;
  }
  Transaction transaction(*database_, Database::Access::read);
  const auto prefix = key_of({name_space, ""});
  std::vector<LockName> names;
  transaction.each(prefix, [&](std::string_view key, std::string_view) {
    auto name = std::string(key.substr(prefix.size()));
    if (matches(name)) names.push_back({name_space, std::move(name)});
    return true;
  });
  for (const auto& lock : names) {
    const auto state = load(transaction, lock);
    auto info = info_of(state, lock, Moment::now(), *gate_);
    if (info.holders.empty() && info.waiters.empty() && !info.last_run) continue;
    complete(info, state);
    locks.push_back(std::move(info));
  }
  return locks;
}

asio::awaitable<std::vector<RunInfo>> LocalStore::history(const LockName& lock,
                                                          Wakeup& wakeup) {
  open(Directory::Missing::accept);
  if (!gate_ || !gate_->exists()) co_return std::vector<RunInfo>{};
  const Turn turn = co_await take_turn(Gate::Access::read, wakeup);
  co_return as_history(runs_of(lock), wall_now());
}

std::vector<RunInfo> LocalStore::runs_of(const LockName& lock) {
  open_database(Database::Access::read);
  if (!database_) {
    // Nobody came since the boot.
    auto of_locks = RunsLog(*directory_).read().runs;
    return std::move(of_locks[lock]);
  }
  Transaction transaction(*database_, Database::Access::read);
  auto runs = runs_of_holders(load(transaction, lock), Moment::now(), *gate_);
  const auto kept = runs_from(transaction.find(key_of(lock, Kept::runs)).value_or(""));
  if (!kept) {
    throw Failure(Failure::Kind::misconfigured,
                  printable(directory_->path_of(Database::file_name())) +
                      " is damaged (a run does not match its checksum); move it away "
                      "once no command runs under its locks");
  }
  runs.insert(runs.end(), kept->begin(), kept->end());
  return runs;
}

}  // namespace dlock::local
