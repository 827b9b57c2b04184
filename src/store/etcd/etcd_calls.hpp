// Calls to an etcd cluster, independent of which member answers them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/wakeup.hpp"
#include "net/tls_context.hpp"
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

class EtcdCluster;

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
  ~EtcdCalls();
  EtcdCalls(const EtcdCalls&) = delete;
  EtcdCalls& operator=(const EtcdCalls&) = delete;

  asio::io_context& context() const;
  const EtcdAccess& access() const;
  milliseconds timeout() const;
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout()); }
  const std::string& name() const;  // the member asked last, for messages
  // Whether a lease that is granted next will have a known term: see LeaseGrantResult.
  bool knows_term() const;

  // Sends all requests at once and returns their results in the same order. The server
  // may execute them in any order.
  asio::awaitable<std::vector<Result>> together(std::vector<Request> requests, Call call);
  asio::awaitable<RangeResult> range(RangeRequest request, Call call);
  asio::awaitable<LeaseGrantResult> lease_grant(LeaseGrantRequest request, Call call);
  asio::awaitable<LeaseRevokeResult> lease_revoke(LeaseRevokeRequest request, Call call);
  asio::awaitable<LeaseKeepAliveResult> lease_keep_alive(LeaseKeepAliveRequest request,
                                                         Call call);

  asio::awaitable<TxnResult> txn(TxnRequest request, Call call);

 private:
  friend class KeyWatch;
  std::unique_ptr<EtcdCluster> cluster_;
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
