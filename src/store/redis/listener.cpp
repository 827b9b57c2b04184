#include "store/redis/listener.hpp"

#include <algorithm>
#include <utility>

namespace dlock::redis {
namespace {

// For how long one command listens. So often a server sees an idle holder, whose renewals
// it sees besides.
constexpr milliseconds listens_for{60'000};

// Between tries to reach a server that is not there, or does not want this.
constexpr milliseconds first_pause{1000};
constexpr milliseconds longest_pause{30'000};

}  // namespace

Listener::Listener(asio::io_context& context, const Target& target, std::string list,
                   milliseconds budget)
    : context_(context),
      server_(target.shown()),
      next_(target),
      list_(std::move(list)),
      budget_(budget),
      wakeup_(context) {
  wakeup_.prepare();
}

void Listener::stop() {
  stops_ = true;
  wakeup_.give_up(true);
}

// What it waits for at another server is given up.
void Listener::follow(const Target& target) {
  if (target.shown() == server_) return;
  server_ = target.shown();
  next_ = target;
  wakeup_.give_up(true);
}

asio::awaitable<void> Listener::listen(std::function<void()> heard) {
  auto pause = first_pause;
  while (!stops_) {
    if (next_) {
      connection_.emplace(context_, *std::exchange(next_, std::nullopt));
      wakeup_.give_up(false);
    }
    const auto result = co_await wait_for_element();
    if (stops_) break;
    if (next_) continue;
    if (result == Heard::something) heard();
    if (result == Heard::nothing) {
      pause = first_pause;
      continue;
    }
    co_await sleep(pause);
    pause = std::min(pause * 2, longest_pause);
  }
  if (connection_) connection_->close();
}

// One that is heard of again and again would be a mistake of somebody's: whoever calls
// this pauses after it.
asio::awaitable<Listener::Heard> Listener::wait_for_element() {
  bool listened = false;
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
    if (reply.is_error()) co_return Heard::cannot;
    co_return reply.kind == Reply::Kind::array ? Heard::something : Heard::nothing;
  } catch (const Failure&) {
  }
  co_return listened ? Heard::something : Heard::cannot;
}

asio::awaitable<void> Listener::sleep(milliseconds span) {
  const auto until = later(Clock::now(), span);
  while (!wakeup_.gives_up() && Clock::now() < until) co_await wakeup_.wait_until(until);
}

}  // namespace dlock::redis
