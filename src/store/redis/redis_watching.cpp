// RedisInspector::watch(): the server publishes events; leases that just expire publish
// none, so they are searched for.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lock/keep_watching.hpp"
#include "loop/retry.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/event_stream.hpp"
#include "store/redis/redis_inspector.hpp"

namespace dlock::redis {
namespace {

// After this time without a message the server is pinged. Where another server may have
// taken over, an isolated one must be detected sooner.
constexpr milliseconds silence{15'000};
constexpr milliseconds silence_where_servers_fail_over{2'000};

// A millisecond longer than a lease, because a lease can end within a millisecond.
Clock::time_point end_of(milliseconds left) {
  return later(Clock::now(), left + milliseconds(1));
}

}  // namespace

// When the known leases expire unless they are renewed.
class RedisInspector::Watching final : public WatchSession {
 public:
  Watching(RedisInspector& inspector, const Watched& watched, Wakeup& wakeup)
      : inspector_(inspector), watched_(watched), wakeup_(wakeup) {}

  // Subscribes first and then reads the locks, so that no event is missed in between.
  asio::awaitable<void> begin() override {
    co_await subscribe();
    const auto covers = [this](const std::string& name) {
      return watched_.covers({watched_.name_space, name});
    };
    std::vector<LockInfo> locks;
    if (watched_.names.empty()) {
      locks = co_await inspector_.list(watched_.name_space, covers, wakeup_);
    }
    for (const auto& name : watched_.names) {
      const LockName lock{watched_.name_space, name};
      auto info = co_await inspector_.inspect(lock, wakeup_);
      locks.push_back(std::move(info));
    }
    for (const auto& lock : locks) {
      note_holders(lock.lock, lock.holders);
      // An expired lease that was not removed yet is not shown.
      if (lock.last_run && lock.last_run->outcome == "vanished") look_at(lock.lock);
    }
  }

  asio::awaitable<void> go_on(EventSink& sink) override {
    const auto published = co_await stream_->next(next_end(), wakeup_);
    if (published) {
      const auto& event = published->event;
      if (published->lasts.count() > 0) note_end(event.lock, end_of(published->lasts));
      if (published->is_event) sink.happened(event);
    }
    const auto over = ended();
    if (over.empty()) co_return;
    // The server may say of a lease again and again that it expires at once.
    const auto now = Clock::now();
    const auto end = later(now, restraint_.pause(now));
    co_await wakeup_.sleep_until(end);
    for (const auto& lock : over) co_await remove_expired(lock);
  }

 private:
  // The current server may be another one.
  asio::awaitable<void> subscribe() {
    auto& route = inspector_.route_;
    const auto nodes = co_await route.all(route.budget_end(), wakeup_);
    auto& node = *nodes.front();
    stream_.emplace(node.context(), node.target(), watched_,
                    route.fails_over() ? silence_where_servers_fail_over : silence,
                    node.timeout());
    co_await stream_->begin(wakeup_);
  }

  void note_holders(const LockName& lock, const std::vector<HolderInfo>& holders) {
    for (const auto& holder : holders) {
      if (holder.foreign || !holder.expires_in) continue;
      note_end(lock, end_of(*holder.expires_in));
    }
  }

  void note_end(const LockName& lock, Clock::time_point end) {
    const auto found = ends_.try_emplace(lock, end).first;
    found->second = std::min(found->second, end);
  }

  void look_at(const LockName& lock) { ends_[lock] = Clock::now(); }

  Clock::time_point next_end() const {
    auto next = Clock::time_point::max();
    for (const auto& [lock, end] : ends_) next = std::min(next, end);
    return next;
  }

  std::vector<LockName> ended() {
    std::vector<LockName> locks;
    const auto now = Clock::now();
    for (const auto& [lock, end] : ends_) {
      if (end <= now) locks.push_back(lock);
    }
    return locks;
  }

  // Removes expired leases, which publishes their events to all watchers; the others have
  // been renewed.
  asio::awaitable<void> remove_expired(LockName lock) {
    std::vector<std::string> none;
    const auto response = co_await inspector_.route_.run(remove_expired_script, lock,
                                                         std::move(none), wakeup_);
    const auto holders = broken_from(response.reply());
    if (!holders) throw response.failure();
    ends_.erase(lock);
    note_holders(lock, *holders);
  }

  RedisInspector& inspector_;
  const Watched& watched_;
  Wakeup& wakeup_;
  std::optional<EventStream> stream_;
  std::map<LockName, Clock::time_point> ends_;
  Restraint restraint_;
};

asio::awaitable<void> RedisInspector::watch(const Watched& watched, EventSink& sink,
                                            Wakeup& wakeup) {
  NewWatchSession new_session = [&] {
    return std::make_unique<Watching>(*this, watched, wakeup);
  };
  co_await keep_watching(std::move(new_session), sink, wakeup);
}

}  // namespace dlock::redis
