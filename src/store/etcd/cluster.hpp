// The members of a cluster in turn, and the login there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"
#include "net/budget.hpp"
#include "store/etcd/access.hpp"
#include "store/etcd/calls.hpp"
#include "store/etcd/connection.hpp"
#include "store/etcd/verdict.hpp"

namespace dlock::etcd {

// When an attempt has to have come to something, so that the members that were not tried
// in this round have their time, too: `left` of them, this one included.
Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left);

class Cluster {
 public:
  Cluster(asio::io_context& context, Access access, milliseconds timeout);

  asio::io_context& context() const { return context_; }
  const Access& access() const { return access_; }
  milliseconds timeout() const { return timeout_; }

  // The one that is asked.
  Connection& member() { return members_[current_]; }
  const Connection& member() const { return members_[current_]; }

  // What is tried once at a member that is reached and logged in to: nothing if it went
  // well.
  using Try = std::function<asio::awaitable<std::optional<Trouble>>(net::Budget&)>;

  // Tries at one member after the other, in turn, until it goes well. Throws Failure as
  // Calls says.
  asio::awaitable<void> persist(Try once, Repeat repeat, Clock::time_point until,
                                Wakeup& wakeup);

  // A call that can be begun at the member, with what it wants to know besides.
  CallStart start_of(std::string_view path, std::string message, bool needs_leader) const;

 private:
  asio::awaitable<std::optional<Trouble>> attempt(const Try& once,
                                                  Clock::time_point reached_by,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup);
  asio::awaitable<std::optional<Trouble>> reach(net::Budget& budget);
  asio::awaitable<std::optional<Trouble>> log_in(net::Budget& budget);
  void move_on();

  asio::io_context& context_;
  Access access_;
  milliseconds timeout_;
  std::deque<Connection> members_;
  std::size_t current_ = 0;
  bool logs_in_;       // there is a user, and nobody has said that login is off
  std::string token_;  // of the login; empty: none yet
};

}  // namespace dlock::etcd
