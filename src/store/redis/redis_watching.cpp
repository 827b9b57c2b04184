#include "store/redis/redis_watching.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lock/store.hpp"
#include "loop/retry.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/redis_inspector.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/script_calls.hpp"
#include "util/text.hpp"

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

std::string channel_of(const LockName& lock) { return key_of(lock) + ":e"; }

// The channel and the text of a message; nothing for other replies.
std::optional<std::pair<std::string, std::string>> message_from(const Reply& reply) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.empty()) return std::nullopt;
  const auto size = parts.size();
  const bool is_message = (parts[0].text == "message" && size == 3) ||
                          (parts[0].text == "pmessage" && size == 4);
  if (!is_message) return std::nullopt;
  return std::pair(parts[size - 2].text, parts[size - 1].text);
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

EventStream::EventStream(asio::io_context& context, const Target& target, Watched watched,
                         milliseconds silence, milliseconds budget)
    : connection_(context, target),
      server_(target.shown()),
      watched_(std::move(watched)),
      silence_(silence),
      budget_(budget) {}

asio::awaitable<void> EventStream::begin(Wakeup& wakeup) {
  connection_.close();
  Command subscribe;
  if (watched_.names.empty()) {
    subscribe = {"PSUBSCRIBE", channel_pattern_for(watched_.name_space)};
  } else {
    subscribe = {"SUBSCRIBE"};
    for (const auto& name : watched_.names) {
      subscribe.push_back(channel_of({watched_.name_space, name}));
    }
  }
  const auto channels = subscribe.size() - 1;
  const auto until = later(Clock::now(), budget_);
  std::vector<Command> commands;
  commands.push_back(std::move(subscribe));
  co_await connection_.send(std::move(commands), until, wakeup);
  for (std::size_t i = 0; i < channels; ++i) {
    const auto reply = co_await connection_.receive(until, wakeup);
    if (!reply) {
      throw Failure(Failure::Kind::unreachable,
                    server_ + " did not reply within " + for_people(budget_));
    }
    if (reply->is_error()) throw failure_from(*reply, server_);
  }
  last_message_at_ = Clock::now();
  asked_ = false;
}

asio::awaitable<std::optional<Published>> EventStream::next(Clock::time_point until,
                                                            Wakeup& wakeup) {
  for (;;) {
    const auto look_at = later(last_message_at_, asked_ ? silence_ + budget_ : silence_);
    const auto reply = co_await connection_.receive(std::min(until, look_at), wakeup);
    if (reply) {
      last_message_at_ = Clock::now();
      asked_ = false;
      if (reply->is_error()) throw failure_from(*reply, server_);
      const auto message = message_from(*reply);
      if (!message) continue;  // a reply to PING
      auto published = published_from(message->first, message->second);
      if (published && watched_.covers(published->event.lock)) co_return published;
      continue;
    }
    if (Clock::now() >= look_at) co_await check_server(wakeup);
    if (Clock::now() >= until) co_return std::nullopt;
  }
}

asio::awaitable<void> EventStream::check_server(Wakeup& wakeup) {
  if (asked_) {
    connection_.close();
    throw Failure(Failure::Kind::unreachable, server_ + " no longer replies");
  }
  asked_ = true;
  std::vector<Command> commands;
  commands.push_back(Command{"PING"});
  co_await connection_.send(std::move(commands), later(Clock::now(), budget_), wakeup);
}

}  // namespace dlock::redis
