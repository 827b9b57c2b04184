// One server, and what is asked of it: scripts, commands, elements of lists.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/scripts.hpp"

namespace dlock::redis {

// What is to be made of a reply before anybody looks at what it says.
enum class ReplySort {
  answer,
  moved,        // another server has the key now (MOVED)
  ask,          // it is on its way there (ASK, TRYAGAIN)
  not_now,      // the server cannot answer yet (LOADING, BUSY, CLUSTERDOWN, MASTERDOWN)
  not_primary,  // it only follows another one (READONLY, UNBLOCKED)
  refused,      // any other error
};
ReplySort sort_of(const Reply& reply);

// How long one who was told to stop still tries to take back its claim.
constexpr milliseconds last_patience{80};

class Node {
 public:
  // Contacts nothing yet. `timeout` is the budget of one operation.
  Node(asio::io_context& context, Target target, milliseconds timeout);

  asio::io_context& context() const { return context_; }
  const Target& target() const { return target_; }
  const std::string& name() const { return name_; }  // for messages, without secrets
  milliseconds timeout() const { return timeout_; }
  Clock::time_point budget_end() const { return later(Clock::now(), timeout_); }

  // As Connection::open().
  asio::awaitable<void> open(Clock::time_point until, Wakeup& wakeup);

  // As Connection::exchange().
  asio::awaitable<std::vector<Reply>> exchange(std::vector<Command> commands,
                                               Clock::time_point until, Wakeup& wakeup);

  // Runs a script on the keys of a lock, and loads it first if the server does not know
  // it. Throws Failure like exchange(); an error of the script is a reply.
  asio::awaitable<Reply> run(const Script& script, const LockName& lock,
                             std::vector<std::string> args, Clock::time_point until,
                             Wakeup& wakeup);

  // The same within the budget of one operation.
  asio::awaitable<Reply> run(const Script& script, const LockName& lock,
                             std::vector<std::string> args, Wakeup& wakeup);

  // What a reply means that is not the expected one.
  Failure failure(const Reply& reply) const;

 private:
  asio::io_context& context_;
  Target target_;
  milliseconds timeout_;
  std::string name_;
  Connection connection_;
  Clock::time_point opened_at_;  // this connection
  bool is_named_ = false;        // on the server
};

}  // namespace dlock::redis
