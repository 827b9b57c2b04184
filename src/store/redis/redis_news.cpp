#include "store/redis/redis_news.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <set>
#include <utility>

#include "loop/retry.hpp"

namespace dlock::redis {
namespace {

// How long one blocking command listens. The renewals of an idle holder are extra.
constexpr milliseconds listens_for{60'000};

// The pause between attempts to reach a server that is unavailable or refuses.
constexpr milliseconds first_reconnect_pause{1000};
constexpr milliseconds longest_reconnect_pause{30'000};

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
      co_await connection_->open(later(Clock::now(), budget_), wakeup_);
      commands.push_back({"CLIENT", "SETNAME", "dlock"});
    }
    listened = true;
    commands.push_back({"BLPOP", list_, std::to_string(listens_for.count() / 1000)});
    const auto until = later(Clock::now(), listens_for + budget_);
    const auto replies =
        co_await connection_->exchange(std::move(commands), until, wakeup_);
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

  // Not used after it has stopped, because they may be gone by then.
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
    const auto until = state->route.budget_end();
    std::optional<ServerAddress> named;
    try {
      named = co_await state->route.owner_by_others(state->lock, state->server, until,
                                                    state->wakeup);
    } catch (const Failure&) {
      // Others are asked in the next round.
    }
    if (state->stops()) break;
    if (named && state->reported.insert(*named).second) state->found(*named);
    co_await state->wakeup.sleep_until(later(Clock::now(), interval));
  }
}

}  // namespace dlock::redis
