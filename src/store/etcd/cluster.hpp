// Tries the members of a cluster in turn, and logs in there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/budget.hpp"
#include "store/etcd/access.hpp"
#include "store/etcd/calls.hpp"
#include "store/etcd/connection.hpp"
#include "store/etcd/verdict.hpp"
#include "util/clock.hpp"

namespace dlock::etcd {

// The deadline of an attempt, so that each member not yet tried in this round gets an
// equal share of the time; `left` of them, including this one.
Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left);

class Cluster {
 public:
  Cluster(asio::io_context& context, Access access, milliseconds timeout);

  asio::io_context& context() const { return context_; }
  const Access& access() const { return access_; }
  milliseconds timeout() const { return timeout_; }

  // The current member.
  Connection& member() { return members_[current_]; }
  const Connection& member() const { return members_[current_]; }

  // One attempt at a member to which we are connected and logged in; nothing on success.
  using Try = std::function<asio::awaitable<std::optional<CallFailure>>(net::Budget&)>;

  // Tries one member after the other until an attempt succeeds. Throws Failure as Calls.
  asio::awaitable<void> retry_on_members(Try once, Repeat repeat, Clock::time_point until,
                                         Wakeup& wakeup);

  // False if members of another cluster have replied in the last minute; 0 is unknown.
  bool is_same(std::uint64_t cluster);

  // The start of a call to the current member, with its metadata (token, leader).
  CallStart start_of(std::string_view path, std::string message, bool needs_leader) const;

 private:
  asio::awaitable<std::optional<CallFailure>> attempt(const Try& once,
                                                      Clock::time_point reached_by,
                                                      Clock::time_point until,
                                                      Wakeup& wakeup);
  asio::awaitable<std::optional<CallFailure>> reach(net::Budget& budget);
  asio::awaitable<std::optional<CallFailure>> log_in(net::Budget& budget);
  void move_on();

  asio::io_context& context_;
  Access access_;
  milliseconds timeout_;
  std::deque<Connection> members_;
  std::size_t current_ = 0;
  bool logs_in_;       // there is a user, and the cluster has not said that login is off
  std::string token_;  // of the login; empty: none yet
  std::uint64_t id_ = 0;      // of the cluster; 0: not known yet
  Clock::time_point seen_{};  // when it last replied
};

}  // namespace dlock::etcd
