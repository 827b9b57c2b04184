// The replies of several sentinels, and the result of their vote, as plain functions on
// values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"
#include "store/store_url.hpp"
#include "util/failure.hpp"

namespace dlock::redis_sentinel {

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

}  // namespace dlock::redis_sentinel
