// The route to the server that the sentinels name as the primary.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"
#include "store/redis/target.hpp"
#include "store/store_url.hpp"
#include "util/failure.hpp"

namespace dlock::redis_sentinel {

// The replies of several sentinels, and the result of their vote, as plain functions on
// values.

// For messages.
constexpr std::string_view announced_by = "the sentinels";

using redis::Opinion;
using redis::Reply;

// The sentinels, for messages.
std::vector<std::string> names_of(const std::vector<ServerAddress>& sentinels);

// What one sentinel reports about a primary and its replicas.
struct PrimaryVote {
  std::optional<ServerAddress> primary;    // nothing: the name is unknown to it
  std::map<ServerAddress, bool> replicas;  // whether each is up, and has to acknowledge
};

// The result of the question to one sentinel; neither is set until it has replied.
struct SentinelBallot {
  std::optional<PrimaryVote> vote;
  std::optional<Failure> failure;
  std::string id;  // of the sentinel that voted; empty if it does not say

  bool is_open() const { return !vote && !failure; }
};

// From a sentinel's replies to GET-MASTER-ADDR-BY-NAME and, if requested, REPLICAS; or
// the first of them that is invalid.
std::variant<PrimaryVote, Reply> vote_from(const std::vector<Reply>& replies);

// The id in the reply to SENTINEL MYID; empty if it is an error, as in Redis 6.0.
std::string id_from(const Reply& reply);

// The vote with the addresses to use in place of the announced ones.
PrimaryVote translated(PrimaryVote vote, const AddressMap& addresses);

// A Failure (misconfigured) if two of the sentinels, whose `names` are in the order of
// the ballots, are the same one: it would have two votes.
std::optional<Failure> same_sentinel(const std::vector<std::string>& names,
                                     const std::vector<SentinelBallot>& ballots);

// The address that more than half of all sentinels name; nothing if there is none. Those
// that are the same one (same_sentinel()) have one vote. A
// single sentinel next to an isolated old primary must not be enough.
std::optional<ServerAddress> elected(const std::vector<SentinelBallot>& ballots);

// What they report about an address, and whether the missing replies cannot change that.
bool is_certain(const ServerAddress& address, const std::vector<SentinelBallot>& ballots);
Opinion opinion_on(const ServerAddress& address,
                   const std::vector<SentinelBallot>& ballots);

// How many replicas of the primary are up: all but those that are not according to more
// than half of the sentinels, because they are down, or are old primaries. The sentinel
// that leads a failover still lists the new primary among the replicas when it names it;
// it is not its own.
unsigned replicas_up(const ServerAddress& primary,
                     const std::vector<SentinelBallot>& ballots);

// Whether any sentinel names another address.
bool is_other_named(const ServerAddress& address,
                    const std::vector<SentinelBallot>& ballots);

// Why no address was elected: exhausted if this machine lacked a resource, misconfigured
// if the name is unknown to most, rejected or misconfigured if most failed so, otherwise
// unreachable. `names` are the sentinels', in the order of the ballots.
Failure no_primary_elected(const std::string& master,
                           const std::vector<std::string>& names,
                           const std::vector<SentinelBallot>& ballots);

// One question to all sentinels, each over a separate short connection. The constructor
// starts it; the destructor abandons sentinels that have not replied.
class Discovery {
 public:
  // Sentinels may reply until `until`. `with_replicas`: also asks for the replicas.
  Discovery(asio::io_context& context, const StoreUrl& url, bool with_replicas,
            Clock::time_point until);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  Clock::time_point began() const { return began_; }
  const std::vector<SentinelBallot>& ballots() const;

  // Waits until `is_certain(ballots)`, until all have replied, or until `until`. Throws
  // Failure (interrupted).
  asio::awaitable<void> wait(
      std::function<bool(const std::vector<SentinelBallot>&)> is_certain, Call call);

 private:
  struct State;
  static asio::awaitable<void> ask(std::shared_ptr<State> state, std::size_t number);

  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;  // shared with the coroutines that ask
};

class SentinelRoute final : public redis::Route {
 public:
  SentinelRoute(asio::io_context& context, StoreUrl url, milliseconds timeout)
      : Route(timeout), context_(context), url_(std::move(url)) {}

  asio::awaitable<std::vector<redis::Node*>> all(Call call) override;
  bool fails_over() const override { return true; }
  std::unique_ptr<redis::Inquiry> inquire(const redis::Node& node,
                                          Clock::time_point since,
                                          Clock::time_point until) override;
  asio::awaitable<std::optional<ServerAddress>> owner_by_others(const LockName& lock,
                                                                const redis::Node& node,
                                                                Call call) override;

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& lock, Call call) override;
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Call call) override;
  Then then(const LockName& lock, redis::Node& node, const redis::Reply& reply) override;
  bool has_others() const override { return true; }

  redis::Node& node_at(const ServerAddress& address);

  asio::io_context& context_;
  StoreUrl url_;
  std::map<ServerAddress, std::unique_ptr<redis::Node>> nodes_;  // never removed
  redis::Node* primary_ = nullptr;
  Clock::time_point discovered_at_{};  // when the sentinels were asked
  unsigned replicas_up_ = 0;           // as of then
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_sentinel
