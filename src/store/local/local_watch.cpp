// LocalInspector::watch(): processes that change a lock publish events while the store is
// watched; leases that end without an event are searched for.
#include <sys/inotify.h>

#include <set>
#include <utility>
#include <vector>

#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "store/local/event_file.hpp"
#include "store/local/local_inspector.hpp"
#include "store/local/watchers.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

// The interval of the search for ended holders and replaced files.
constexpr milliseconds look_every{400};

// The pause between attempts to watch a store that cannot be used.
constexpr milliseconds pause_after_trouble{1000};

}  // namespace

asio::awaitable<void> LocalInspector::watch(const Watched& watched, EventSink& sink,
                                            Wakeup& wakeup) {
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
    const auto until = Clock::now() + pause_after_trouble;
    while (!wakeup.gives_up() && Clock::now() < until) co_await wakeup.wait_until(until);
  }
}

// Watches until the files are replaced, or the caller stops.
asio::awaitable<void> LocalInspector::watch_for_a_while(const Watched& watched,
                                                        EventSink& sink, Wakeup& wakeup) {
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

bool LocalInspector::has_holders(const LockName& lock) const {
  return !files_.look_at(lock).state.holders.empty();
}

// A named lock has to be readable.
std::set<LockName> LocalInspector::locks_with_holders(const Watched& watched,
                                                      EventSink& sink) const {
  std::set<LockName> held;
  for (const auto& name : watched.names) {
    const LockName lock{watched.name_space, name};
    if (has_holders(lock)) held.insert(lock);
  }
  if (!watched.names.empty()) return held;
  const auto found = files_.locks_of(watched.name_space, [&](const std::string& name) {
    return has_holders({watched.name_space, name});
  });
  for (const auto& failure : found.unreadable) sink.left_out(failure.what());
  return {found.locks.begin(), found.locks.end()};
}

// Removes the locks from `held` that are no longer held, or that cannot be read.
asio::awaitable<void> LocalInspector::remove_ended(std::set<LockName>& held,
                                                   EventSink& sink, Wakeup& wakeup) {
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

asio::awaitable<void> LocalInspector::remove_ended_holders(LockName lock,
                                                           Wakeup& wakeup) {
  Consequences consequences;
  {
    auto change = co_await files_.begin_change(lock, wakeup);
    rules::tidy(change.state, Moment::now(), files_.sessions(), consequences);
    for (const auto& run : consequences.vanished) record_past_run(change.state, run);
    files_.commit(change, lock);
  }
  files_.notify(consequences);
  co_await files_.log_ends(lock, consequences.vanished, wakeup);
}

}  // namespace dlock::local
