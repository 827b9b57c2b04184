// Tries the members of a cluster in turn, logs in there, and decides how to handle a
// failed call.
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

#include "grpc/http2.hpp"
#include "net/budget.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/etcd/etcd_connection.hpp"
#include "store/etcd/etcd_messages.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

struct CallFailure {
  enum class Remedy {
    none,         // a retry would fail again
    login,        // log in again and retry
    next_member,  // retry on the next member, or here after a pause
  };

  Failure failure;
  Remedy remedy = Remedy::none;
  bool was_answered = true;  // false: no reply came
};

// The result for errors that answer the request: the lease already or no longer exists,
// no login is required, or no keep-alive is answered here. Nothing for other errors.
std::optional<Result> answer_in(const Request& request, const grpc::CallOutcome& outcome);

// `server` is for the message.
CallFailure call_failure(const grpc::CallOutcome& outcome, const std::string& server);

// For a failure without a reply.
CallFailure call_failure(const Failure& failure);

// Whether a call failed because the user may not make it, or because there is no login.
// Only the text of the error tells these from each other, and from a refused certificate.
bool is_permission_denied(const Failure& failure);
bool is_login_required(const Failure& failure);

// For a failed login.
CallFailure login_failure(const grpc::CallOutcome& outcome, const std::string& server);

// The deadline of an attempt, so that each member not yet tried in this round gets an
// equal share of the time; `left` of them, including this one.
Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left);

class EtcdCluster {
 public:
  EtcdCluster(asio::io_context& context, EtcdAccess access, milliseconds timeout);

  asio::io_context& context() const { return context_; }
  const EtcdAccess& access() const { return access_; }
  milliseconds timeout() const { return timeout_; }

  // The current member.
  EtcdConnection& member() { return members_[current_]; }
  const EtcdConnection& member() const { return members_[current_]; }

  // One attempt at a member to which we are connected and logged in; nothing on success.
  using Try = std::function<asio::awaitable<std::optional<CallFailure>>(net::Budget&)>;

  // Tries one member after the other until an attempt succeeds. Throws Failure as
  // EtcdCalls.
  asio::awaitable<void> retry_on_members(Try once, Call call);

  // False if members of another cluster have replied in the last minute; 0 is unknown.
  bool is_same(std::uint64_t cluster);

  // The term that the last reply on the connection to the current member told; 0: none.
  std::uint64_t known_term() const;
  void note_term(std::uint64_t term);

  // The start of a call to the current member, with its metadata (token, leader).
  grpc::CallStart start_of(std::string_view path, std::string message,
                           bool needs_leader) const;

 private:
  bool has_to_log_in() const { return logs_in_ && token_.empty(); }
  asio::awaitable<std::optional<CallFailure>> attempt(
      const Try& once, const std::optional<std::string>& password, Call call);
  asio::awaitable<std::optional<CallFailure>> reach(
      const std::optional<std::string>& password, net::Budget& budget);
  asio::awaitable<std::optional<CallFailure>> log_in(
      const std::optional<std::string>& password, net::Budget& budget);
  void move_on();

  asio::io_context& context_;
  EtcdAccess access_;
  milliseconds timeout_;
  std::deque<EtcdConnection> members_;
  std::size_t current_ = 0;
  bool logs_in_;       // there is a user, and the cluster has not said that login is off
  std::string token_;  // of the login; empty: none yet
  std::uint64_t id_ = 0;      // of the cluster; 0: not known yet
  Clock::time_point seen_{};  // when it last replied
  std::uint64_t term_ = 0;    // as told on this connection:
  std::size_t told_by_ = 0;
  std::uint64_t told_on_ = 0;
};

// The path of a request: "/etcdserverpb.KV/Range".
std::string_view path_of(const Request& request);

}  // namespace dlock::etcd
