#include "store/redis/event_stream.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/keys.hpp"
#include "store/redis/reply.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

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
