#include "store/local/local_inspector.hpp"

#include <sys/inotify.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/text_files.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock::local {
namespace {

void name_users(std::vector<RunInfo>& runs) {
  for (auto& run : runs) name_user(run.user);
}

void name_users(LockInfo& info) {
  for (auto& waiter : info.waiters) name_user(waiter.user);
  if (info.last_run) name_user(info.last_run->user);
  if (info.last_success) name_user(info.last_success->user);
}

// The locks that have a file, sorted by name, and the failures to read one. The name of a
// lock whose file cannot be read is unknown.
struct LocksFound {
  std::vector<LockName> locks;
  std::vector<Failure> unreadable;
};

// The lock whose state a file holds; nothing if the file was removed just now.
std::optional<LockName> lock_in(const RecordFile& record) {
  if (!record.exists()) return std::nullopt;
  const auto named = named_in(record.payload());
  if (!named || key_of(named->name, StateKind::lock).file != record.name()) {
    throw without_state(record, StateKind::lock);
  }
  return named->name;
}

LocksFound locks_in(const Directory& folder, const std::string& name_space,
                    const NameFilter& matches) {
  LocksFound found;
  for (const auto& file : folder.names()) {
    if (kind_of(file) != StateKind::lock) continue;
    try {
      const auto lock = lock_in({folder, file, RecordFile::Access::read});
      if (lock && lock->name_space == name_space && matches(lock->name)) {
        found.locks.push_back(*lock);
      }
    } catch (const Failure& failure) {
      if (!is_about_one_lock(failure)) throw;
      found.unreadable.push_back(failure);
    }
  }
  std::ranges::sort(found.locks);
  return found;
}

// A lock as the log of earlier boots describes it.
LockInfo info_from(const record::History& history, const LockName& lock) {
  LockInfo info;
  info.lock = lock;
  info.now = wall_now();
  const auto last = history.last_runs.find(lock);
  if (last != history.last_runs.end()) info.last_run = last->second;
  const auto runs = history.runs.find(lock);
  const auto past = history.past.find(lock);
  info.known = runs != history.runs.end();
  if (!info.known) return info;
  if (past != history.past.end()) info.past = past->second;
  info.last_success = last_success_of(runs->second, info.past.last_success);
  name_users(info);
  return info;
}

// The interval of the search for ended holders and replaced files.
constexpr milliseconds look_every{400};

// The pause between attempts to watch a store that cannot be used.
constexpr milliseconds pause_after_trouble{1000};

class LocalInspector final : public LockInspector {
 public:
  explicit LocalInspector(Files& files) : files_(files) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override {
    return files_.repeated(wakeup, [this, lock]() -> asio::awaitable<LockInfo> {
      if (!files_.open_to_look()) co_return info_from({}, lock);
      if (files_.has_folder()) co_return info_of_lock(lock);
      co_return info_from(RunsLog(files_.directory()).read(), lock);
    });
  }

  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override {
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
            if (info.is_listed()) locks.push_back(std::move(info));
          });
          co_return locks;
        });
  }

  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override {
    return files_.repeated(
        wakeup, [this, lock]() -> asio::awaitable<std::vector<RunInfo>> {
          if (!files_.open_to_look()) co_return std::vector<RunInfo>{};
          if (files_.has_folder())
            co_return runs_of_lock(lock, RunsLog(files_.directory()).text());
          auto of_locks = RunsLog(files_.directory()).read().runs;
          auto runs = as_history(std::move(of_locks[lock]), wall_now());
          name_users(runs);
          co_return runs;
        });
  }

  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override {
    return files_.repeated(
        wakeup,
        [this, name_space, matches]() -> asio::awaitable<std::vector<LockHistory>> {
          std::vector<LockHistory> found;
          left_out_.clear();
          if (!files_.open_to_look()) co_return found;
          const auto add = [&](const LockName& lock, std::vector<RunInfo> runs) {
            if (!runs.empty()) found.push_back({lock, std::move(runs), wall_now()});
          };
          if (files_.has_folder()) {
            const auto log = RunsLog(files_.directory()).text();
            read_each(name_space, matches,
                      [&](const LockName& lock) { add(lock, runs_of_lock(lock, log)); });
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

  std::vector<Failure> left_out() const override { return left_out_; }

  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override {
    for (bool is_first = true; !wakeup.gives_up(); is_first = false) {
      std::string why;
      is_watching_ = false;
      try {
        files_.close();
        co_await watch_for_a_while(watched, sink, wakeup);
        why = "the files in " + printable(files_.path()) + " were replaced";
      } catch (const Failure& failure) {
        if (failure.kind() == Failure::Kind::interrupted) co_return;
        if (is_first && !is_watching_) throw;
        why = failure.what();
      }
      if (wakeup.gives_up()) co_return;
      if (is_watching_) sink.interrupted(why);
      co_await wakeup.sleep_until(Clock::now() + pause_after_trouble);
    }
  }

 private:
  // Leaves out the locks that cannot be read.
  void read_each(const std::string& name_space, const NameFilter& matches,
                 const std::function<void(const LockName&)>& read) {
    auto found = locks_in(files_.folder(), name_space, matches);
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

  LockInfo info_of_lock(const LockName& lock) const {
    return files_.taken_from(lock, [&](const State& state) {
      auto info = rules::info_of(state, lock, Moment::now(), files_.sessions());
      complete(info.holders, state);
      name_users(info);
      return info;
    });
  }

  std::vector<RunInfo> runs_of_lock(const LockName& lock, const std::string& log) const {
    auto runs = files_.taken_from(lock, [&](const State& state) {
      auto found = rules::runs_of_holders(state, Moment::now(), files_.sessions());
      found.insert(found.end(), state.runs.begin(), state.runs.end());
      return found;
    });
    runs = as_history(std::move(runs), wall_now());
    record::add_descriptions(runs, log, lock);
    name_users(runs);
    return runs;
  }

  // Watches until the files are replaced, or the caller stops.
  asio::awaitable<void> watch_for_a_while(const Watched& watched, EventSink& sink,
                                          Wakeup& wakeup) {
    co_await files_.open_to_use(wakeup);
    const Fd mark = watch_mark(files_.directory());
    EventReader reader(files_.directory());
    auto held = locks_with_holders(watched, sink);
    std::optional<FileWatcher> changes;
    // Short enough that no events are lost: the file is replaced when it is full.
    constexpr milliseconds pause{5};
    const auto follow_file = [&] {
      changes.emplace(
          files_.context(), [&wakeup] { wakeup.notify(); }, [=] { return pause; });
      changes->watch(files_.directory().pinned(events_file), IN_MODIFY | IN_MOVE_SELF);
    };
    follow_file();
    is_watching_ = true;
    sink.began();
    auto look_at = Clock::now();
    while (!wakeup.gives_up()) {
      auto events = reader.read();
      if (!events) co_return;
      for (auto& event : *events) {
        if (!watched.covers(event.lock)) continue;
        name_user(event.user);
        if (event.taken_by) name_user(event.taken_by->user);
        if (event.kind == Event::Kind::granted) held.insert(event.lock);
        sink.happened(event);
      }
      if (reader.was_replaced()) {
        follow_file();
        continue;  // events may have been added before the watch began
      }
      if (Clock::now() >= look_at) {
        if (!files_.in_place()) co_return;
        co_await remove_ended(held, sink, wakeup);
        look_at = Clock::now() + look_every;
      }
      co_await wakeup.wait_until(look_at);
    }
  }

  bool has_holders(const LockName& lock) const {
    return !files_.look_at(lock).state.holders.empty();
  }

  // A named lock has to be readable.
  std::set<LockName> locks_with_holders(const Watched& watched, EventSink& sink) const {
    std::set<LockName> held;
    for (const auto& name : watched.names) {
      const LockName lock{watched.name_space, name};
      if (has_holders(lock)) held.insert(lock);
    }
    if (!watched.names.empty()) return held;
    const auto found =
        locks_in(files_.folder(), watched.name_space, [&](const std::string& name) {
          return has_holders({watched.name_space, name});
        });
    for (const auto& failure : found.unreadable) sink.left_out(failure.what());
    return {found.locks.begin(), found.locks.end()};
  }

  // Removes the locks from `held` that are no longer held, or that cannot be read.
  asio::awaitable<void> remove_ended(std::set<LockName>& held, EventSink& sink,
                                     Wakeup& wakeup) {
    std::vector<LockName> untidy;
    for (auto lock = held.begin(); lock != held.end();) {
      bool is_held = false;
      try {
        const auto state = files_.look_at(*lock).state;
        is_held = !state.holders.empty();
        if (is_untidy(state, Moment::now(), files_.sessions())) untidy.push_back(*lock);
      } catch (const Failure& failure) {
        if (!is_about_one_lock(failure)) throw;
        sink.left_out(failure.what());
      }
      lock = is_held ? std::next(lock) : held.erase(lock);
    }
    for (const auto& lock : untidy) co_await remove_ended_holders(lock, wakeup);
  }

  asio::awaitable<void> remove_ended_holders(LockName lock, Wakeup& wakeup) {
    Consequences consequences;
    {
      auto change = co_await files_.begin_change(lock, wakeup);
      rules::tidy({change.state, Moment::now(), files_.sessions(), consequences});
      for (const auto& run : consequences.vanished) record_past_run(change.state, run);
      files_.commit(change, lock);
    }
    files_.notify(consequences);
    co_await files_.log_ends(lock, consequences.vanished, wakeup);
  }

  Files& files_;
  bool is_watching_ = false;
  std::vector<Failure> left_out_;
};

}  // namespace

// Text that is not a number stays as it is: the files may contain anything.
void name_user(std::string& user) {
  if (const auto uid = number_in<std::uint32_t>(user)) user = user_name(*uid);
}

void complete(std::vector<HolderInfo>& holders, const State& state) {
  for (auto& shown : holders) {
    name_user(shown.user);
    const auto holder = std::ranges::find_if(
        state.holders, [&](const Holder& h) { return h.fence == shown.fence; });
    if (!shown.attached || holder->command == 0) continue;
    if (dlock_is_gone(*holder)) {
      shown.dlock_gone = true;
      shown.pid = holder->command;
    }
  }
}

std::unique_ptr<LockInspector> inspector_of(Files& files) {
  return std::make_unique<LocalInspector>(files);
}

}  // namespace dlock::local
