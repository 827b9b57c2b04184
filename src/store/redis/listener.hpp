// Notifies a holder at once that its lease was broken: by a list of its own, over a
// second connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

#include "loop/wakeup.hpp"
#include "store/redis/connection.hpp"

namespace dlock::redis {

// The notification is only a hint: the reply to the next renewal decides. So failures
// here do not affect the lease.
//
// It uses a list instead of a channel because an element stays until the holder has
// connected, and because it needs no more permissions than waiting in the queue does.
class Listener {
 public:
  // `budget` is that of one operation.
  Listener(asio::io_context& context, const Target& target, std::string list,
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
  asio::awaitable<void> sleep(milliseconds span);

  asio::io_context& context_;
  std::string server_;          // as it is shown
  std::optional<Target> next_;  // where to listen from now on
  std::optional<Connection> connection_;
  std::string list_;
  milliseconds budget_;
  Wakeup wakeup_;
  bool stops_ = false;
};

}  // namespace dlock::redis
