// EtcdInspector::watch(): turns changes to the keys of a namespace into events of its
// locks.
#include <algorithm>
#include <map>
#include <utility>

#include "lock/keep_watching.hpp"
#include "store/etcd/etcd_inspector.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/name_space.hpp"

namespace dlock::etcd {
namespace {

// After this time without events the member is queried: it may have stopped.
constexpr milliseconds ask_every{5'000};

class Watching final : public WatchSession {
 public:
  Watching(const Calls& like, const Watched& watched, Wakeup& wakeup)
      : calls_(like.context(), like.access(), like.timeout()),
        watch_(calls_),
        watched_(watched),
        wakeup_(wakeup) {}

  // The whole namespace, so that all changes of a revision arrive together.
  asio::awaitable<void> begin() override {
    const auto until = calls_.budget_end();
    auto found = co_await read_name_space(calls_, watched_.name_space, until, wakeup_);
    lines_ = std::move(found.snapshots);
    WatchRequest request;
    request.key = namespace_prefix(watched_.name_space);
    request.range_end = end_of_prefix(request.key);
    request.start_revision = found.revision + 1;
    std::vector<WatchRequest> requests{request};
    co_await watch_.start(std::move(requests), until, wakeup_);
  }

  asio::awaitable<void> go_on(EventSink& sink) override {
    const auto update = co_await watch_.next(later(Clock::now(), ask_every), wakeup_);
    switch (update.kind) {
      case WatchUpdate::Kind::events: tell(update.events, sink); break;
      case WatchUpdate::Kind::nothing: co_await ask_anything(); break;
      case WatchUpdate::Kind::compacted:
      case WatchUpdate::Kind::broken:
        throw Failure(Failure::Kind::unreachable,
                      calls_.name() + ": the connection is closed");
    }
  }

 private:
  asio::awaitable<void> ask_anything() {
    RangeRequest request;
    request.key = namespace_prefix(watched_.name_space);
    request.keys_only = true;
    co_await calls_.range(request, calls_.budget_end(), wakeup_);
  }

  // Revision by revision; each is one step of one client.
  void tell(const std::vector<KeyChange>& events, EventSink& sink) {
    for (auto next = events.begin(); next != events.end();) {
      const auto revision = next->pair.mod_revision;
      const auto end = std::find_if(next, events.end(), [&](const KeyChange& event) {
        return event.pair.mod_revision != revision;
      });
      std::map<std::string, std::vector<const KeyChange*>> by_lock;
      for (; next != end; ++next) {
        const auto parts = parts_of(next->pair.key, watched_.name_space);
        if (parts) by_lock[parts->name].push_back(&*next);
      }
      for (const auto& [name, changes] : by_lock)
        tell_of({watched_.name_space, name}, changes, sink);
    }
  }

  void tell_of(const LockName& lock, const std::vector<const KeyChange*>& changes,
               EventSink& sink) {
    if (!watched_.covers(lock)) return;
    auto& snapshot = lines_[lock.name];
    const auto before = snapshot;
    RunChanges aside;
    for (const auto* change : changes) apply(*change, lock, snapshot, aside);
    for (const auto& event : events_between(before, snapshot, aside, lock, wall_now())) {
      sink.happened(event);
    }
    if (snapshot.entries.empty()) lines_.erase(lock.name);
  }

  static void apply(const KeyChange& change, const LockName& lock, LockSnapshot& snapshot,
                    RunChanges& aside) {
    const auto parts = parts_of(change.pair.key, lock.name_space);
    const bool is_put = change.kind == KeyChange::Kind::put;
    if (!parts->in_queue) {
      const std::string_view open = "now/";
      if (is_put) {
        auto runs = runs_from({change.pair}, runs_prefix(lock));
        for (auto& run : runs.past) aside.ended.push_back(std::move(run));
        for (auto& [id, taker] : runs.taken) aside.taken.emplace(id, std::move(taker));
      } else if (parts->rest.starts_with(open)) {
        aside.closed.insert(parts->rest.substr(open.size()));
      }
      return;
    }
    std::erase_if(snapshot.entries,
                  [&](const Entry& entry) { return entry.id == parts->rest; });
    if (!is_put) return;
    auto entry = entry_from(change.pair, queue_prefix(lock));
    const auto behind =
        std::find_if(snapshot.entries.begin(), snapshot.entries.end(),
                     [&](const Entry& other) { return other.created > entry.created; });
    snapshot.entries.insert(behind, std::move(entry));
  }

  Calls calls_;
  Watch watch_;
  const Watched& watched_;
  Wakeup& wakeup_;
  std::map<std::string, LockSnapshot> lines_;
};

}  // namespace

asio::awaitable<void> EtcdInspector::watch(const Watched& watched, EventSink& sink,
                                           Wakeup& wakeup) {
  NewWatchSession new_session = [&] {
    return std::make_unique<Watching>(calls_, watched, wakeup);
  };
  co_await keep_watching(std::move(new_session), sink, wakeup);
}

}  // namespace dlock::etcd
