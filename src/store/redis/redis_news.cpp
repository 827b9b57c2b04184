#include "store/redis/redis_news.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <map>
#include <set>
#include <utility>

#include "lock/store.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/script_calls.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// How long one blocking command listens. The renewals of an idle holder are extra.
constexpr milliseconds listens_for{60'000};

// The pause between attempts to reach a server that is unavailable or refuses.
constexpr milliseconds first_reconnect_pause{1000};
constexpr milliseconds longest_reconnect_pause{30'000};

// After this time without a message the server is pinged. Where another server may have
// taken over, an isolated one must be detected sooner.
constexpr milliseconds silence{15'000};
constexpr milliseconds silence_where_servers_fail_over{2'000};

// A millisecond longer than a lease, because a lease can end within a millisecond.
Clock::time_point end_of(milliseconds left) {
  return later(Clock::now(), left + milliseconds(1));
}

std::string channel_of(const LockName& lock) { return key_of(lock) + ":e"; }

// Events are recorded for ten seconds.
constexpr milliseconds recorded_for{30'000};

// How many are read at once, and of how many locks.
constexpr const char* most_events = "1000";
constexpr std::size_t most_locks = 10'000;

// The lock of whose channel this is a message; nothing for other replies.
std::optional<LockName> told_in(const Reply& reply) {
  const auto& parts = reply.elements;
  if (reply.kind != Reply::Kind::array || parts.empty()) return std::nullopt;
  const auto size = parts.size();
  const bool is_message = (parts[0].text == "message" && size == 3) ||
                          (parts[0].text == "pmessage" && size == 4);
  const bool is_of_lock = is_message && parts[size - 2].text.ends_with("}:e");
  return is_of_lock ? lock_of(parts[size - 2].text) : std::nullopt;
}

}  // namespace

BreakListener::BreakListener(asio::io_context& context, const Target& target,
                             std::string list, milliseconds budget)
    : context_(context),
      server_(target.shown()),
      next_(target),
      list_(std::move(list)),
      budget_(budget),
      wakeup_(context) {
  wakeup_.prepare();
}

void BreakListener::stop() {
  stops_ = true;
  wakeup_.give_up(true);
}

// Interrupts the wait at the previous server.
void BreakListener::follow(const Target& target) {
  if (target.shown() == server_) return;
  server_ = target.shown();
  next_ = target;
  wakeup_.give_up(true);
}

asio::awaitable<void> BreakListener::listen(std::function<void()> on_news) {
  GrowingPause pause(longest_reconnect_pause, first_reconnect_pause);
  while (!stops_) {
    if (next_) {
      connection_.emplace(context_, *std::exchange(next_, std::nullopt));
      wakeup_.give_up(false);
    }
    const auto result = co_await wait_for_element();
    if (stops_) break;
    if (next_) continue;
    if (result == AskReply::something) on_news();
    if (result == AskReply::nothing) {
      pause.reset();
      continue;
    }
    co_await wakeup_.sleep_until(later(Clock::now(), pause.next()));
  }
  if (connection_) connection_->close();
}

// Repeated elements would be an error of another program, so the caller pauses after
// each.
asio::awaitable<BreakListener::AskReply> BreakListener::wait_for_element() {
  bool listened = false;
  const auto began = Clock::now();
  try {
    std::vector<Command> commands;
    if (!connection_->is_open()) {
      co_await connection_->open(wakeup_.within(budget_));
      commands.push_back({"CLIENT", "SETNAME", "dlock"});
    }
    listened = true;
    commands.push_back({"BLPOP", list_, std::to_string(listens_for.count() / 1000)});
    const auto call = wakeup_.within(listens_for + budget_);
    const auto replies = co_await connection_->exchange(std::move(commands), call);
    const auto& reply = replies.back();
    if (reply.is_error()) co_return AskReply::cannot;
    if (reply.kind == Reply::Kind::array) co_return AskReply::something;
    // A server that does not wait for an element would be asked without a pause.
    const bool has_waited = elapsed_since(began) > listens_for / 2;
    co_return has_waited ? AskReply::nothing : AskReply::cannot;
  } catch (const Failure&) {
  }
  co_return listened ? AskReply::something : AskReply::cannot;
}

struct Lookout::State {
  State(asio::io_context& context, Route& of, LockName name, const Node& replaced,
        std::function<void(const ServerAddress&)> told)
      : route(of),
        lock(std::move(name)),
        server(replaced),
        found(std::move(told)),
        wakeup(context) {}

  bool stops() const { return wakeup.gives_up(); }

  // Not used after it has stopped, because they may no longer exist by then.
  Route& route;
  LockName lock;
  const Node& server;
  std::function<void(const ServerAddress&)> found;

  std::set<ServerAddress> reported;
  Wakeup wakeup;
};

Lookout::Lookout(asio::io_context& context, Route& route, const LockName& lock,
                 const Node& server, Clock::time_point begin,
                 std::function<void(const ServerAddress&)> found)
    : state_(std::make_shared<State>(context, route, lock, server, std::move(found))) {
  const auto first = [state = state_, begin]() -> asio::awaitable<void> {
    co_await state->wakeup.sleep_until(begin);
    co_await watch(state);
  };
  asio::co_spawn(context, first, [](const std::exception_ptr&) {});
}

Lookout::~Lookout() { state_->wakeup.give_up(true); }

asio::awaitable<void> Lookout::watch(std::shared_ptr<State> state) {
  state->reported.insert(state->server.target().address());
  const auto interval = lookout_interval(state->route.timeout());
  while (!state->stops()) {
    const auto call = state->route.new_call(state->wakeup);
    std::optional<ServerAddress> named;
    try {
      named = co_await state->route.owner_by_others(state->lock, state->server, call);
    } catch (const Failure&) {
      // Others are asked in the next round.
    }
    if (state->stops()) break;
    if (named && state->reported.insert(*named).second) state->found(*named);
    co_await state->wakeup.sleep_until(later(Clock::now(), interval));
  }
}

// When the known leases expire unless they are renewed.
class RedisInspector::Watching final : public WatchSession {
 public:
  Watching(RedisInspector& inspector, const Watched& watched, Wakeup& wakeup)
      : inspector_(inspector), watched_(watched), wakeup_(wakeup) {}

  // Subscribes first and then reads the locks, so that no event is missed in between.
  asio::awaitable<void> begin() override {
    co_await subscribe();
    co_await note_time();
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
    if (auto told = co_await stream_->next({next_end(), wakeup_})) {
      co_await tell_of(std::move(*told), sink);
    }
    const auto over = ended();
    if (over.empty()) co_return;
    // The server may say of a lease again and again that it expires at once.
    co_await wakeup_.within(restraint_.pause(Clock::now())).sleep();
    for (const auto& lock : over) co_await remove_expired(lock);
  }

 private:
  // The current server may be another one.
  asio::awaitable<void> subscribe() {
    auto& route = inspector_.route_;
    const auto nodes = co_await route.all(route.new_call(wakeup_));
    auto& node = *nodes.front();
    stream_.emplace(node.context(), node.target(), watched_,
                    route.fails_over() ? silence_where_servers_fail_over : silence,
                    node.timeout());
    co_await stream_->begin(wakeup_);
  }

  // By the clocks of the servers: what was recorded before is no news.
  asio::awaitable<void> note_time() {
    began_at_ = Clock::now();
    began_ = INT64_MAX;
    auto& route = inspector_.route_;
    const auto call = route.new_call(wakeup_);
    for (auto* node : co_await route.all(call)) {
      std::vector<Command> commands(1, {"TIME"});
      const auto key = key_of({watched_.name_space, "watch"}) + ":e";
      commands.push_back({"XRANGE", key, "+", "+"});  // whether it may
      const auto replies = co_await node->exchange(std::move(commands), call);
      for (const auto& reply : replies) {
        const auto sort = class_of(reply);
        const bool is_elsewhere = sort == ReplyClass::moved || sort == ReplyClass::ask;
        if (reply.is_error() && !is_elsewhere) throw node->failure(reply);
      }
      const auto& time = replies.front().elements;
      if (time.size() != 2) throw node->failure(replies.front());
      const auto part = [&](int i) {
        return number_in<std::int64_t>(time[i].text).value_or(0);
      };
      began_ = std::min(began_, part(0) * 1'000'000 + part(1));
    }
  }

  // Reads what is recorded of that lock, and of those that are told until it is read.
  asio::awaitable<void> tell_of(LockName first, EventSink& sink) {
    std::set<LockName> told{std::move(first)};
    const auto now = Clock::now();
    const auto until = later(now, hints_.pause(now));
    while (auto more = co_await stream_->next({until, wakeup_})) {
      told.insert(std::move(*more));
      if (told.size() <= most_locks) continue;
      throw Failure::unreachable("too many locks have events at once");
    }
    std::vector<Published> news;
    for (const auto& lock : told) co_await read_news(lock, news);
    std::ranges::stable_sort(news, [](const auto& one, const auto& other) {
      return one.event.time < other.event.time;
    });
    for (const auto& published : news) {
      const auto& event = published.event;
      if (published.lasts.count() > 0) note_end(event.lock, end_of(published.lasts));
      if (published.is_event) sink.happened(event);
    }
    const auto old = Clock::now() - recorded_for;
    std::erase_if(read_to_, [&](const auto& entry) { return entry.second.second < old; });
  }

  asio::awaitable<void> read_news(const LockName& lock, std::vector<Published>& news) {
    const auto name = key_of(lock) + ":e";
    for (bool has_more = true; has_more;) {
      const auto found = read_to_.find(lock);
      const bool is_recent = Clock::now() - began_at_ < recorded_for;
      const auto last = found != read_to_.end() ? found->second.first : std::string();
      const auto from = !last.empty() ? last
                        : is_recent   ? std::to_string(began_ / 1000)
                                      : "-";
      std::vector<Command> commands(1, {"XRANGE", name, from, "+", "COUNT", most_events});
      const auto response =
          co_await inspector_.route_.exchange(lock, std::move(commands), wakeup_);
      if (response.reply().is_error()) throw response.failure();
      has_more = false;
      for (const auto& entry : response.reply().elements) {
        if (entry.elements.size() != 2 || entry.elements[0].text == last) continue;
        has_more = true;
        read_to_[lock] = {entry.elements[0].text, Clock::now()};
        const auto& fields = entry.elements[1].elements;
        auto published = published_from(name, fields.empty() ? "" : fields.back().text);
        const bool is_news =
            published && (!is_recent || published->event.time > WallTime(began_));
        if (is_news) news.push_back(std::move(*published));
      }
    }
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
    const auto response =
        co_await inspector_.route_.run(remove_expired_script, lock, {}, wakeup_);
    const auto holders = response.checked(broken_from(response.reply()));
    ends_.erase(lock);
    note_holders(lock, holders);
  }

  RedisInspector& inspector_;
  const Watched& watched_;
  Wakeup& wakeup_;
  std::optional<EventStream> stream_;
  std::map<LockName, Clock::time_point> ends_;
  Restraint restraint_;
  Restraint hints_;
  Clock::time_point began_at_{};
  std::int64_t began_ = 0;  // by their clocks, in microseconds
  // Of each lock the last event that was read, and when.
  std::map<LockName, std::pair<std::string, Clock::time_point>> read_to_;
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
  const auto call = wakeup.within(budget_);
  std::vector<Command> commands;
  commands.push_back(std::move(subscribe));
  co_await connection_.send(std::move(commands), call);
  for (std::size_t i = 0; i < channels; ++i) {
    const auto reply = co_await connection_.receive(call);
    if (!reply) {
      throw Failure::unreachable(server_ + " did not reply within " +
                                 for_people(budget_));
    }
    if (reply->is_error()) throw failure_from(*reply, server_);
  }
  last_message_at_ = Clock::now();
  asked_ = false;
}

asio::awaitable<std::optional<LockName>> EventStream::next(Call call) {
  for (;;) {
    const auto look_at = later(last_message_at_, asked_ ? silence_ + budget_ : silence_);
    const auto reply = co_await connection_.receive(call.by(look_at));
    if (reply) {
      last_message_at_ = Clock::now();
      asked_ = false;
      if (reply->is_error()) throw failure_from(*reply, server_);
      auto lock = told_in(*reply);  // or it is a reply to PING
      if (lock && watched_.covers(*lock)) co_return lock;
      continue;
    }
    if (Clock::now() >= look_at) co_await check_server(call.wakeup);
    if (call.is_over()) co_return std::nullopt;
  }
}

asio::awaitable<void> EventStream::check_server(Wakeup& wakeup) {
  if (asked_) {
    connection_.close();
    throw Failure::unreachable(server_ + " no longer replies");
  }
  asked_ = true;
  std::vector<Command> commands;
  commands.push_back(Command{"PING"});
  co_await connection_.send(std::move(commands), wakeup.within(budget_));
}

}  // namespace dlock::redis
