#include "store/etcd/etcd_lease.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "lock/history.hpp"
#include "store/etcd/etcd_entry.hpp"

namespace dlock::etcd {

DayLease::DayLease(EtcdCalls& calls, std::string name_space)
    : calls_(calls), name_space_(std::move(name_space)) {}

std::int64_t DayLease::id() const { return lease_of_day(name_space_, wall_now()); }

asio::awaitable<void> DayLease::set_up(Call call) {
  // A day longer, for runs that end at the end of the day.
  constexpr auto lasts = run_retention + std::chrono::hours(24);
  LeaseGrantRequest request;
  request.id = id();
  request.ttl = std::chrono::seconds(lasts).count();
  co_await calls_.lease_grant(request, call);
}

namespace {

// How often the member is asked for a sign of life: a frozen member sends nothing and
// still accepts data. If it does not reply, the next member is used.
constexpr milliseconds silence{5'000};

// The pause between failed connections.
constexpr milliseconds reconnect_after{1000};

// The pause after news, each of which the holder answers with a renewal: a server that
// sends them without end must not be asked without end.
constexpr milliseconds after_news{100};

// Runs independently of the caller, so it shares ownership of everything it uses.
struct EntryListener {
  EntryListener(const EtcdCalls& like, std::string of, std::int64_t from,
                std::function<void()> then)
      : calls(like.context(), like.access(), like.timeout()),
        watch(calls),
        wakeup(like.context()),
        key(std::move(of)),
        revision(from),
        on_news(std::move(then)) {}

  EtcdCalls calls;
  KeyWatch watch;
  Wakeup wakeup;
  std::string key;
  std::int64_t revision;  // all events up to it have been received
  std::function<void()> on_news;
  bool stops = false;
};

// Not what the holder itself writes: its entry on a new lease.
bool matters(const std::vector<KeyChange>& events) {
  return std::ranges::any_of(events, [](const KeyChange& event) {
    if (event.kind == KeyChange::Kind::deletion) return true;
    const auto entry = entry_from(event.pair, {});
    return entry.foreign || entry.standing != Standing::holds;
  });
}

asio::awaitable<void> pause(EntryListener& listener, milliseconds span) {
  const auto call = listener.wakeup.within(span);
  while (!listener.stops && !call.is_over()) co_await call.wait();
}

asio::awaitable<void> receive(std::shared_ptr<EntryListener> listener) {
  WatchRequest request;
  request.key = listener->key;
  request.start_revision = listener->revision + 1;
  co_await listener->watch.start(std::move(request),
                                 listener->calls.new_call(listener->wakeup));
  while (!listener->stops) {
    const auto news = co_await listener->watch.next(listener->wakeup.within(silence));
    if (listener->stops || news.kind == WatchUpdate::Kind::broken) co_return;
    if (news.kind == WatchUpdate::Kind::nothing) {
      RangeRequest look;
      look.key = listener->key;
      look.keys_only = true;
      co_await listener->calls.range(std::move(look),
                                     listener->calls.new_call(listener->wakeup));
      continue;
    }
    listener->revision = std::max(listener->revision, news.revision);
    if (news.kind == WatchUpdate::Kind::events && !matters(news.events)) continue;
    listener->on_news();
    if (news.kind == WatchUpdate::Kind::compacted) co_return;
    co_await pause(*listener, after_news);
  }
}

asio::awaitable<void> keep_hearing(std::shared_ptr<EntryListener> listener) {
  while (!listener->stops) {
    try {
      co_await receive(listener);
    } catch (const Failure&) {
      // Try again.
    }
    co_await pause(*listener, reconnect_after);
  }
}

class EntryNews final : public LeaseNews {
 public:
  explicit EntryNews(std::shared_ptr<EntryListener> listener)
      : listener_(std::move(listener)) {
    asio::co_spawn(listener_->calls.context(), keep_hearing(listener_),
                   [](const std::exception_ptr&) {});
  }
  ~EntryNews() override { stop(); }
  EntryNews(const EntryNews&) = delete;
  EntryNews& operator=(const EntryNews&) = delete;

  void stop() override {
    listener_->stops = true;
    listener_->wakeup.give_up(true);
    listener_->wakeup.notify();
  }

 private:
  std::shared_ptr<EntryListener> listener_;
};

}  // namespace

std::unique_ptr<LeaseNews> news_of(const EtcdCalls& calls, std::string key,
                                   std::int64_t revision, std::function<void()> on_news) {
  return std::make_unique<EntryNews>(std::make_shared<EntryListener>(
      calls, std::move(key), revision, std::move(on_news)));
}

}  // namespace dlock::etcd
