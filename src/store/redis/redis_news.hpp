// What a server tells without being asked again: to a holder, that its lease was broken
// or that another server has taken over; to `dlock watch`, the events of locks.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

// The notification is only a hint: the reply to the next renewal decides. Failures here
// thus do not affect the lease.
//
// It uses a list instead of a channel because an element stays until the holder has
// connected, and because it needs no more permissions than waiting in the queue does.
class BreakListener {
 public:
  // `budget` is that of one operation.
  BreakListener(asio::io_context& context, const Target& target, std::string list,
                milliseconds budget);

  // Calls `on_news` when an element is pushed to the list, and when a connection breaks,
  // as one may have been lost then. Runs until stop().
  asio::awaitable<void> listen(std::function<void()> on_news);
  void stop();

  // Listens at this server from now on.
  void follow(const Target& target);

 private:
  enum class AskReply { something, nothing, cannot };
  asio::awaitable<AskReply> wait_for_element();

  asio::io_context& context_;
  std::string server_;          // as it is shown
  std::optional<Target> next_;  // where to listen from now on
  std::optional<RedisConnection> connection_;
  std::string list_;
  milliseconds budget_;
  Wakeup wakeup_;
  bool stops_ = false;
};

// While a server is silent, or does not confirm a lease, others know whether it was
// replaced, and their answer is cheap. They are therefore asked at short intervals, and
// the new server is used as soon as it is named, and not only at the next attempt.
class Lookout {
 public:
  // Asks from `begin` on, until it is destroyed. Calls `found` for each server that is
  // named in the place of `server`, once each. `route` must outlive this.
  Lookout(asio::io_context& context, Route& route, const LockName& lock,
          const Node& server, Clock::time_point begin,
          std::function<void(const ServerAddress&)> found);
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

 private:
  struct State;
  static asio::awaitable<void> watch(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // shared with the coroutine
};

// How long to wait before the first question and between two. Each client of the servers
// that failed asks all sentinels, so the interval must not be much shorter.
constexpr milliseconds lookout_interval(milliseconds budget) { return budget / 4; }

// A connection that subscribes to the channels of the watched locks.
class EventStream {
 public:
  // After `silence` without a message the server is pinged. `budget` is that of one
  // operation.
  EventStream(asio::io_context& context, const Target& target, Watched watched,
              milliseconds silence, milliseconds budget);

  // Subscribes, or subscribes again. Throws Failure: rejected without permission.
  asio::awaitable<void> begin(Wakeup& wakeup);

  // The next watched lock of which something is told; nothing if there is none by
  // `until`. Anyone with a login may have told it. Throws Failure; then call begin()
  // before the next call.
  asio::awaitable<std::optional<LockName>> next(Call call);

 private:
  asio::awaitable<void> check_server(Wakeup& wakeup);

  RedisConnection connection_;
  std::string server_;  // for messages
  Watched watched_;
  milliseconds silence_;
  milliseconds budget_;
  Clock::time_point last_message_at_{};
  bool asked_ = false;  // pinged, without a reply yet
};

}  // namespace dlock::redis
