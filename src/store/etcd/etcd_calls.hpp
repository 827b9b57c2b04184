// Calls to an etcd cluster, independent of which member answers them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loop/wakeup.hpp"
#include "net/budget.hpp"
#include "net/tls_context.hpp"
#include "store/etcd/etcd_connection.hpp"
#include "store/etcd/etcd_errors.hpp"
#include "store/etcd/etcd_messages.hpp"
#include "store/store_url.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

struct EtcdAccess {
  std::vector<ServerAddress> members;  // in the order in which they are tried
  std::optional<net::TlsOptions> tls;  // may contain a client certificate as login
  Login login;                         // an empty user: none
};

EtcdAccess access_of(const StoreUrl& url);

// Throws Failure: misconfigured if the user has no password, and as Login::secret().
asio::awaitable<std::string> password_of(const EtcdAccess& access,
                                         asio::io_context& context, net::Budget& budget);

// The deadline of an attempt, so that each member not yet tried in this round gets an
// equal share of the time; `left` of them, including this one.
Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left);

// Calls over one connection, to the member that replied last. At most one call or wait
// for events at a time; concurrent watches need separate EtcdCalls.
//
// `until` is the whole budget of a call; `wakeup` interrupts it. If a member cannot be
// reached, does not reply within its share of the budget, or reports that it cannot
// answer now (no leader, no quorum), the next member is asked, and so on in turn: so a
// request must have the same effect whether executed once or twice. A late reply is never
// read as another one. Every call throws Failure:
//   unreachable    no member replied, the database is full, or the reply is invalid
//   rejected       login, permissions, a certificate
//   misconfigured  a file that cannot be used, or a call that this etcd does not support
//   interrupted    `wakeup` gives up
class EtcdCalls {
 public:
  // Contacts nothing yet. `timeout` is the budget of one operation of dlock.
  EtcdCalls(asio::io_context& context, EtcdAccess access, milliseconds timeout);
  EtcdCalls(const EtcdCalls&) = delete;
  EtcdCalls& operator=(const EtcdCalls&) = delete;

  asio::io_context& context() const { return context_; }
  const EtcdAccess& access() const { return access_; }
  milliseconds timeout() const { return timeout_; }
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }
  // Whether there is a user, and the cluster has not said that login is off.
  bool logs_in() const { return logs_in_; }
  // The member asked last, for messages.
  const std::string& name() const { return members_[current_].shown(); }
  // Whether a lease that is granted next will have a known term: see LeaseGrantResult.
  bool knows_term() const { return known_term() != 0; }

  // Sends all requests at once and returns their results in the same order. The server
  // may execute them in any order.
  asio::awaitable<std::vector<Result>> together(std::vector<Request> requests, Call call);

  // One request and its result.
  template <typename Answer, typename Question>
  asio::awaitable<Answer> ask(Question question, Call call) {
    std::vector<Request> requests;
    requests.emplace_back(std::move(question));
    auto results = co_await together(std::move(requests), call);
    co_return std::get<Answer>(std::move(results.front()));
  }

  asio::awaitable<RangeResult> range(RangeRequest request, Call call) {
    return ask<RangeResult>(std::move(request), call);
  }
  asio::awaitable<LeaseGrantResult> lease_grant(LeaseGrantRequest request, Call call) {
    return ask<LeaseGrantResult>(request, call);
  }
  asio::awaitable<LeaseRevokeResult> lease_revoke(LeaseRevokeRequest request, Call call) {
    return ask<LeaseRevokeResult>(request, call);
  }
  asio::awaitable<LeaseKeepAliveResult> lease_keep_alive(LeaseKeepAliveRequest request,
                                                         Call call) {
    return ask<LeaseKeepAliveResult>(request, call);
  }
  asio::awaitable<TxnResult> txn(TxnRequest request, Call call) {
    return ask<TxnResult>(std::move(request), call);
  }

 private:
  friend class KeyWatch;

  // One attempt at a member to which we are connected and logged in; nothing on success.
  using Try = std::function<asio::awaitable<std::optional<CallFailure>>(net::Budget&)>;

  // Tries one member after the other until an attempt succeeds. Throws Failure.
  asio::awaitable<void> retry_on_members(Try once, Call call);
  asio::awaitable<std::optional<CallFailure>> attempt(
      const Try& once, const std::optional<std::string>& password, Call call);
  asio::awaitable<std::optional<CallFailure>> reach(
      const std::optional<std::string>& password, net::Budget& budget);
  asio::awaitable<std::optional<CallFailure>> log_in(
      const std::optional<std::string>& password, net::Budget& budget);
  asio::awaitable<std::optional<CallFailure>> ask_member(
      const std::vector<Request>& requests, std::vector<Result>& results,
      net::Budget& budget);
  void move_on();
  bool has_to_log_in() const { return logs_in_ && token_.empty(); }

  // False if members of another cluster have replied in the last minute; 0 is unknown.
  bool is_same(std::uint64_t cluster);

  // The term that the last reply on the connection to the current member told; 0: none.
  std::uint64_t known_term() const;
  void note_term(std::uint64_t term);

  // The start of a call to the current member, with its metadata (token, leader).
  grpc::CallStart start_of(std::string_view path, std::string message,
                           bool needs_leader) const;

  // The current member.
  EtcdConnection& member() { return members_[current_]; }

  asio::io_context& context_;
  EtcdAccess access_;
  milliseconds timeout_;
  std::deque<EtcdConnection> members_;
  std::size_t current_ = 0;
  bool logs_in_;
  std::string token_;         // of the login; empty: none yet
  std::uint64_t id_ = 0;      // of the cluster; 0: not known yet
  Clock::time_point seen_{};  // when it last replied
  std::uint64_t term_ = 0;    // as told on this connection:
  std::size_t told_by_ = 0;
  std::uint64_t told_on_ = 0;
};

// The result of waiting on a watch.
struct WatchUpdate {
  enum class Kind {
    events,
    nothing,    // timed out; the watch continues
    compacted,  // the events since the start revision are no longer available
    broken,     // the connection broke, or the member has no leader: start again
  };

  Kind kind = Kind::nothing;
  std::vector<KeyChange> events;
  // All events up to it have been received; if compacted, the oldest one available.
  std::int64_t revision = 0;
};

// A watch on the connection of `calls`, which must outlive it; it continues during calls.
// Several watches may share a connection, but only one may be waited for at a time.
class KeyWatch {
 public:
  explicit KeyWatch(EtcdCalls& calls);
  ~KeyWatch();  // the member is notified with the next call
  KeyWatch(const KeyWatch&) = delete;
  KeyWatch& operator=(const KeyWatch&) = delete;

  // Starts a watch, replacing any earlier one, and waits until the member confirms it.
  // Throws Failure as EtcdCalls.
  asio::awaitable<void> start(WatchRequest request, Call call);

  // Waits for the next update; `broken` if the watch was never started or has ended. A
  // silent member may have stopped, so make a call now and then while waiting for long:
  // if that goes to another member, the watch is broken. Throws Failure (interrupted);
  // then the watch continues.
  asio::awaitable<WatchUpdate> next(Call call);

  // Whether it will never receive an event again.
  bool is_broken() const;

 private:
  class Feed;
  EtcdCalls& calls_;
  std::unique_ptr<Feed> feed_;
};

}  // namespace dlock::etcd
