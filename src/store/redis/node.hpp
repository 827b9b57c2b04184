// One server, and what is asked of it: scripts, commands, elements of lists.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/life.hpp"
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

// What a server has to be for what is asked of it.
enum class Role {
  any,
  // It is asked on each new connection, and else answers READONLY to everything.
  primary,
  // The same, and else it is misconfigured. What it says of other members passes.
  cluster_member,
  // One of several that know nothing of each other: it is asked on each new connection
  // for its role and its life(), and else it is misconfigured.
  independent,
};

class Node {
 public:
  // Contacts nothing yet. `timeout` is the budget of one operation.
  Node(asio::io_context& context, Target target, milliseconds timeout,
       Role role = Role::any);

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

  // Runs a script on these keys, and loads it first if the server does not know it.
  // Replies, and if `replicas` is above 0 the number of those that have acknowledged what
  // the script has written, which is waited for within the budget. Throws Failure like
  // exchange(); an error of the script is a reply.
  asio::awaitable<std::vector<Reply>> run(const Script& script,
                                          const std::vector<std::string>& keys,
                                          const std::vector<std::string>& args,
                                          unsigned replicas, Clock::time_point until,
                                          Wakeup& wakeup);

  // The same where the keys are on their way to this server.
  asio::awaitable<std::vector<Reply>> run_asking(const Script& script,
                                                 const std::vector<std::string>& keys,
                                                 const std::vector<std::string>& args,
                                                 unsigned replicas,
                                                 Clock::time_point until, Wakeup& wakeup);

  // What a reply means that is not the expected one.
  Failure failure(const Reply& reply) const;

  // Whether, by its last reply or for want of one, it may not be what it is asked as: it
  // cannot be reached, or says that it is a replica, or is not ready.
  bool is_suspect() const { return is_suspect_; }
  void trust() { is_suspect_ = false; }
  void distrust() { is_suspect_ = true; }

  // Of a server that is `independent`, as it was when the connection was made that the
  // last reply came by.
  const Life& life() const { return life_; }

 private:
  asio::io_context& context_;
  bool take_check(const std::vector<Reply>& replies);
  void take_life(const Reply& info, const Reply& role);

  Target target_;
  milliseconds timeout_;
  Role role_;
  std::string name_;
  Connection connection_;
  Clock::time_point opened_at_;  // this connection
  bool is_named_ = false;        // on the server
  bool is_checked_ = false;      // that this connection leads to what it has to be
  bool is_suspect_ = false;
  Life life_;
};

}  // namespace dlock::redis
