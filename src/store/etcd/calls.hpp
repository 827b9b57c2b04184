// What dlock asks of an etcd cluster, whichever of its members answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lock/clock.hpp"
#include "lock/wakeup.hpp"
#include "store/etcd/access.hpp"
#include "store/etcd/requests.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

class Cluster;

// Whether requests that may have been executed, for all that is known, are sent again to
// the next member.
enum class Repeat { never, freely };

// Calls over one connection, to the member that answered last. At most one call or wait
// for events at a time: whoever listens beside has Calls of its own.
//
// Every call has `until`, its whole budget, and gives up when `wakeup` says so. When a
// member cannot be reached, does not answer in its share of the budget, or says that it
// cannot answer now (no leader, no quorum), the next one is asked, and so on in turn. A
// late answer is never taken for another one. Every call throws Failure:
//   unreachable    nobody answered; or the data base is full, or the answer is none
//   rejected       login, rights, a certificate
//   misconfigured  a file that cannot be used, or a call that this etcd does not know
//   interrupted    `wakeup` gives up
class Calls {
 public:
  // Contacts nothing yet. `timeout` is the budget of one operation of dlock.
  Calls(asio::io_context& context, Access access, milliseconds timeout);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  asio::io_context& context() const;
  const Access& access() const;
  milliseconds timeout() const;
  Clock::time_point budget_end() const;
  const std::string& name() const;  // of the member asked last, for messages

  // Sends all requests at once and returns their results in the same order. They are
  // executed in any order.
  asio::awaitable<std::vector<Result>> together(std::vector<Request> requests,
                                                Repeat repeat, Clock::time_point until,
                                                Wakeup& wakeup);

  // These only look, or come to the same whether they are executed once or twice.
  asio::awaitable<RangeResult> range(RangeRequest request, Clock::time_point until,
                                     Wakeup& wakeup);
  asio::awaitable<LeaseGrantResult> lease_grant(LeaseGrantRequest request,
                                                Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<LeaseRevokeResult> lease_revoke(LeaseRevokeRequest request,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup);
  asio::awaitable<LeaseKeepAliveResult> lease_keep_alive(LeaseKeepAliveRequest request,
                                                         Clock::time_point until,
                                                         Wakeup& wakeup);
  asio::awaitable<LeaseTimeToLiveResult> lease_time_to_live(
      LeaseTimeToLiveRequest request, Clock::time_point until, Wakeup& wakeup);

  asio::awaitable<TxnResult> txn(TxnRequest request, Repeat repeat,
                                 Clock::time_point until, Wakeup& wakeup);

 private:
  friend class Watch;
  std::unique_ptr<Cluster> cluster_;
};

// What was heard of a watch.
struct Heard {
  enum class Kind {
    events,
    nothing,    // the time was over first, and the watch goes on
    compacted,  // what happened from the start revision on is not known any more
    deaf,       // the connection broke, or the member has no leader: start again
  };

  Kind kind = Kind::nothing;
  std::vector<Event> events;
  // Up to which everything has been heard; if compacted, the oldest that is known.
  std::int64_t revision = 0;
};

// A watch on the connection of `calls`, where it goes on while calls are made; they
// outlive it. There may be several on one connection, of which one is waited for.
class Watch {
 public:
  explicit Watch(Calls& calls);
  ~Watch();  // the member is told with the next call
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Starts it, or a new one in its place, of all these keys and ranges, and returns once
  // the member has said that it is created. The revision of the store then: what happens
  // after it is heard. Throws Failure as Calls.
  asio::awaitable<std::int64_t> start(std::vector<WatchRequest> requests,
                                      Clock::time_point until, Wakeup& wakeup);

  // What is heard next. Deaf if it was never started or has ended. A member that says
  // nothing may be one that has stopped: whoever waits long makes a call now and then,
  // after which this is deaf if that went to another member. Throws Failure
  // (interrupted), and the watch goes on.
  asio::awaitable<Heard> next(Clock::time_point until, Wakeup& wakeup);

  // Whether it cannot hear anything any more.
  bool is_interrupted() const;

 private:
  class Feed;
  Calls& calls_;
  std::unique_ptr<Feed> feed_;
};

}  // namespace dlock::etcd
