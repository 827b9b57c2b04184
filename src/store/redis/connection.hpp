// A connection to one Redis or Valkey server: commands out, replies in, each time within
// one total deadline.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lock/clock.hpp"
#include "lock/wakeup.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"
#include "util/failure.hpp"

namespace dlock::net {
class Budget;
}

namespace dlock::redis {

// A command and its arguments, byte for byte.
using Command = std::vector<std::string>;

// A batch of one, for GCC 12 cannot make a list within a call that is awaited.
inline std::vector<Command> alone(Command command) {
  std::vector<Command> commands;
  commands.push_back(std::move(command));
  return commands;
}

// At most one exchange at a time. Whatever goes wrong with an exchange (time over, closed
// by the peer, a reply that is none, given up) leaves the connection closed, so that a
// late reply is never taken for the next one's; the next exchange opens it again.
class Connection {
 public:
  // Contacts nothing yet.
  Connection(asio::io_context& context, Target target);
  ~Connection();

  // Whether it is open and logged in, as far as is known without asking.
  bool is_open() const;

  // Closes it if the server has closed it meanwhile. One system call.
  void drop_if_closed();

  // Opens the connection if it is closed: resolves, connects to each address in turn
  // until one answers, TLS, login and choice of database (one write, and nothing is sent
  // behind it before the server has agreed to both). Nothing if it is open.
  // Throws Failure: unreachable when `until` passes first or the peer is not what it
  // should be, rejected for a login or a certificate, misconfigured for a database that
  // is not there, interrupted when `wakeup` gives up.
  asio::awaitable<void> open(Clock::time_point until, Wakeup& wakeup);

  // Sends `commands` in one write and returns one reply for each, in order. Errors of the
  // server are replies like others. Opens first if needed. Throws Failure like open().
  asio::awaitable<std::vector<Reply>> exchange(std::vector<Command> commands,
                                               Clock::time_point until, Wakeup& wakeup);

  // For a connection of its own that subscribes: sends `commands` without waiting for
  // their replies, which receive() has then, one by one, and what the server says later.
  // Nothing from receive() when `until` passes first; the connection stays open. Both
  // throw Failure like open(); nothing else may be exchanged until it is closed.
  asio::awaitable<void> send(std::vector<Command> commands, Clock::time_point until,
                             Wakeup& wakeup);
  asio::awaitable<std::optional<Reply>> receive(Clock::time_point until, Wakeup& wakeup);

  void close();

 private:
  class Link;
  void finish(net::Budget& budget, const std::optional<Failure>& failure);

  std::unique_ptr<Link> link_;
};

}  // namespace dlock::redis
