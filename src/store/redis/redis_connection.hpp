// A connection to one Redis or Valkey server: commands out, replies in, each time within
// one total deadline.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/wakeup.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/target.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// A command and its arguments, byte for byte.
using Command = std::vector<std::string>;

// A batch of one command; GCC 12 cannot handle an initializer list in an awaited call.
inline std::vector<Command> alone(Command command) {
  std::vector<Command> commands;
  commands.push_back(std::move(command));
  return commands;
}

// At most one exchange at a time. If an exchange fails (timed out, closed by the peer,
// invalid reply, interrupted), the connection is closed, so that a late reply is never
// read as the next one; the next exchange opens it again.
class RedisConnection {
 public:
  // Contacts nothing yet.
  RedisConnection(asio::io_context& context, Target target);
  ~RedisConnection();

  // Whether it is open and logged in, as far as is known without contacting the server.
  bool is_open() const;

  // Closes it if the server has closed it meanwhile. Costs one system call.
  void drop_if_closed();

  // Opens the connection if it is closed: resolves the name, connects to each address in
  // turn until one accepts, sets up TLS, logs in and selects the database (in one write;
  // nothing else is sent before the server has accepted both). No effect if it is open.
  // Throws Failure: unreachable when `until` passes first or the peer does not speak the
  // protocol, rejected for a login or a certificate, misconfigured for a database that
  // does not exist, interrupted when `wakeup` gives up. Throws net::Refusal if the server
  // does not take the connection.
  asio::awaitable<void> open(Call call);

  // Sends `commands` in one write and returns one reply for each, in order. Errors of the
  // server are returned as replies. Opens first if needed. Throws Failure like open(); a
  // net::Refusal only if the server has not executed any of the commands. Where reopening
  // is refused, because the caller has checked which server the connection leads to, it
  // throws Failure (unreachable) if the server has closed it.
  enum class Reopening { allowed, refused };
  asio::awaitable<std::vector<Reply>> exchange(std::vector<Command> commands, Call call,
                                               Reopening reopening = Reopening::allowed);

  // For a separate connection that subscribes: send() does not wait for replies;
  // receive() returns them one by one, and then the messages of the server. receive()
  // returns nothing when `until` passes first; the connection stays open. Both throw
  // Failure like open(). Do not call exchange() until the connection is closed.
  asio::awaitable<void> send(std::vector<Command> commands, Call call);
  asio::awaitable<std::optional<Reply>> receive(Call call);

  void close();

 private:
  class Link;

  std::unique_ptr<Link> link_;
};

}  // namespace dlock::redis
