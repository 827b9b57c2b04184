#include "store/etcd/etcd_inspector.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "lock/store.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

// Keys to read in one step: some 500 KB.
constexpr std::int64_t page = 1000;

// What a namespace may have in memory: some 500,000 keys, which are the runs of more than
// ten thousand locks.
constexpr std::size_t most_bytes = std::size_t{256} << 20;

Failure too_large(const std::string& name_space) {
  return Failure::unreachable(
      "etcd has more keys below " + printable(name_space, 200) +
      "/ than dlock reads at once (256 MiB): name the lock instead, or "
      "give other programs another prefix");
}

// The number of requests in flight at the same time.
constexpr std::size_t at_once = 64;

// After this time without events the member is queried: it may have stopped.
constexpr milliseconds ask_every{5'000};

class EtcdWatchSession final : public WatchSession {
 public:
  EtcdWatchSession(const EtcdCalls& like, const Watched& watched, Wakeup& wakeup)
      : calls_(like.context(), like.access(), like.timeout()),
        watch_(calls_),
        watched_(watched),
        wakeup_(wakeup) {}

  // The whole namespace, so that all changes of a revision arrive together.
  asio::awaitable<void> begin() override {
    const auto call = calls_.new_call(wakeup_);
    auto found = co_await read_name_space(calls_, watched_.name_space, call);
    lines_ = std::move(found.snapshots);
    WatchRequest request;
    request.key = namespace_prefix(watched_.name_space);
    request.range_end = end_of_prefix(request.key);
    request.start_revision = found.revision + 1;
    co_await watch_.start(std::move(request), call);
  }

  asio::awaitable<void> go_on(EventSink& sink) override {
    const auto update = co_await watch_.next(wakeup_.within(ask_every));
    switch (update.kind) {
      case WatchUpdate::Kind::events: tell(update.events, sink); break;
      case WatchUpdate::Kind::nothing: co_await ask_anything(); break;
      case WatchUpdate::Kind::compacted:
      case WatchUpdate::Kind::broken:
        throw Failure::unreachable(calls_.name() + ": the connection is closed");
    }
  }

 private:
  asio::awaitable<void> ask_anything() {
    RangeRequest request;
    request.key = namespace_prefix(watched_.name_space);
    request.keys_only = true;
    co_await calls_.range(request, calls_.new_call(wakeup_));
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
                  [&](const QueueEntry& entry) { return entry.id == parts->rest; });
    if (!is_put) return;
    auto entry = entry_from(change.pair, queue_prefix(lock));
    const auto behind = std::ranges::find_if(
        snapshot.entries,
        [&](const QueueEntry& other) { return other.created > entry.created; });
    snapshot.entries.insert(behind, std::move(entry));
  }

  EtcdCalls calls_;
  KeyWatch watch_;
  const Watched& watched_;
  Wakeup& wakeup_;
  std::map<std::string, LockSnapshot> lines_;
};

class EtcdInspector final : public LockInspector {
 public:
  explicit EtcdInspector(EtcdCalls& calls) : calls_(calls) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override {
    return info_from(lock, look_at(lock), wakeup);
  }

  asio::awaitable<LockInfo> inspect_for_sure(const LockName& lock,
                                             Wakeup& wakeup) override {
    return info_from(lock, written_look_at(lock), wakeup);
  }

  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override {
    const auto call = calls_.new_call(wakeup);
    auto found = co_await read_name_space(calls_, name_space, call);
    std::vector<LockInfo> locks;
    std::vector<LockSnapshot> snapshots;
    left_out_.clear();
    for (auto& [name, snapshot] : found.snapshots) {
      if (!matches(name)) continue;
      note_damage(name, snapshot);
      auto info = info_of(snapshot, {name_space, name}, wall_now());
      if (!info.is_listed()) continue;
      locks.push_back(std::move(info));
      snapshots.push_back(std::move(snapshot));
    }
    co_await fill_ends(locks, snapshots, call);
    co_return locks;
  }

  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override {
    auto request = look_at(lock);
    const auto call = calls_.new_call(wakeup);
    const auto result = co_await calls_.txn(std::move(request), call);
    const auto snapshot = snapshot_from(lock, result);
    left_out_.clear();
    note_damage(lock.name, snapshot);
    co_return history_of(snapshot, wall_now());
  }

  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override {
    const auto call = calls_.new_call(wakeup);
    const auto found = co_await read_name_space(calls_, name_space, call);
    std::vector<LockHistory> histories;
    const auto now = wall_now();
    left_out_.clear();
    for (const auto& [name, snapshot] : found.snapshots) {
      if (!matches(name)) continue;
      note_damage(name, snapshot);
      auto runs = history_of(snapshot, now);
      if (!runs.empty()) histories.push_back({{name_space, name}, std::move(runs), now});
    }
    co_return histories;
  }

  std::vector<Failure> left_out() const override { return left_out_; }

  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override {
    NewWatchSession new_session = [&] {
      return std::make_unique<EtcdWatchSession>(calls_, watched, wakeup);
    };
    co_await keep_watching(std::move(new_session), sink, wakeup);
  }

 private:
  void note_damage(const std::string& lock, const LockSnapshot& snapshot) {
    for (const auto& key : snapshot.runs.damaged) {
      left_out_.push_back(Failure::unreachable(printable_name(lock) + ": the record " +
                                               printable(key, 600) +
                                               " of a run is damaged: delete it"));
    }
  }

  asio::awaitable<LockInfo> info_from(LockName lock, TxnRequest look, Wakeup& wakeup) {
    const auto call = calls_.new_call(wakeup);
    const auto result = co_await calls_.txn(std::move(look), call);
    std::vector<LockSnapshot> snapshots{snapshot_from(lock, result)};
    std::vector<LockInfo> infos{info_of(snapshots.front(), lock, wall_now())};
    co_await fill_ends(infos, snapshots, call);
    co_return std::move(infos.front());
  }

  // Adds when the leases of the holders end, which the entries do not contain. These are
  // lower bounds: etcd counts in whole seconds.
  asio::awaitable<void> fill_ends(std::vector<LockInfo>& locks,
                                  const std::vector<LockSnapshot>& snapshots, Call call) {
    std::vector<std::pair<HolderInfo*, std::int64_t>> leases;
    for (std::size_t i = 0; i < locks.size(); ++i) {
      auto holder = locks[i].holders.begin();
      for (const auto& entry : snapshots[i].entries) {
        if (!is_holder(snapshots[i], entry)) continue;
        if (entry.lease != 0) leases.emplace_back(&*holder, entry.lease);
        ++holder;
      }
    }
    for (std::size_t first = 0; first < leases.size(); first += at_once) {
      const auto end = std::min(first + at_once, leases.size());
      std::vector<Request> requests;
      for (auto i = first; i < end; ++i) {
        requests.emplace_back(LeaseTimeToLiveRequest{leases[i].second});
      }
      const auto results = co_await calls_.together(std::move(requests), call);
      for (auto i = first; i < end; ++i) {
        const auto& left = std::get<LeaseTimeToLiveResult>(results.at(i - first));
        const auto seconds = std::max<std::int64_t>(left.ttl, 0);
        leases[i].first->expires_in = std::chrono::seconds(seconds);
        leases[i].first->is_expiry_unknown = false;
      }
    }
  }

  EtcdCalls& calls_;
  std::vector<Failure> left_out_;
};

}  // namespace

std::map<std::string, LockSnapshot> snapshots_from(const std::vector<KeyValue>& pairs,
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
    (parts->in_queue ? of_lock.entries : of_lock.runs).push_back(pair);
  }
  std::map<std::string, LockSnapshot> snapshots;
  for (const auto& [name, of_lock] : sorted) {
    const LockName lock{name_space, name};
    auto& snapshot = snapshots[name];
    snapshot.revision = revision;
    snapshot.entries = entries_from(of_lock.entries, queue_prefix(lock));
    snapshot.runs = runs_from(of_lock.runs, runs_prefix(lock));
  }
  return snapshots;
}

asio::awaitable<NameSpace> read_name_space(EtcdCalls& calls, std::string name_space,
                                           Call call) {
  NameSpace found;
  std::vector<KeyValue> pairs;
  RangeRequest request;
  request.key = namespace_prefix(name_space);
  request.range_end = end_of_prefix(request.key);
  request.limit = page;
  std::size_t bytes = 0;
  bool more = true;
  while (more) {
    auto result = co_await calls.range(request, call);
    if (found.revision == 0) found.revision = result.revision;
    request.revision = found.revision;
    more = result.more && !result.pairs.empty();
    if (more) request.key = result.pairs.back().key + '\0';
    for (auto& pair : result.pairs) {
      bytes += sizeof pair + pair.key.size() + pair.value.size();
      pairs.push_back(std::move(pair));
    }
    if (bytes > most_bytes) throw too_large(name_space);
  }
  found.snapshots = snapshots_from(pairs, name_space, found.revision);
  co_return found;
}

std::unique_ptr<LockInspector> inspector_of(EtcdCalls& calls) {
  return std::make_unique<EtcdInspector>(calls);
}

}  // namespace dlock::etcd
