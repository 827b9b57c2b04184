// How a holder hears at once that its lease was broken: by a list of its own, over a
// second connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

#include "lock/wakeup.hpp"
#include "store/redis/connection.hpp"

namespace dlock::redis {

// Only a hint comes from here: what counts is what the server says to the next renewal.
// So nothing that goes wrong here concerns the lease.
//
// A list and no channel, though one could subscribe to that: an element waits for a
// holder whose connection is just being made, and it takes no more rights than to wait in
// line.
class Listener {
 public:
  // `budget` is that of one operation.
  Listener(asio::io_context& context, const Target& target, std::string list,
           milliseconds budget);

  // Calls `heard` when something is put on the list, or may have been: a connection that
  // was listening is gone. Goes on until stop().
  asio::awaitable<void> listen(std::function<void()> heard);
  void stop();

  // From now on at this server.
  void follow(const Target& target);

 private:
  enum class Heard { something, nothing, cannot };
  asio::awaitable<Heard> wait_for_element();
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
