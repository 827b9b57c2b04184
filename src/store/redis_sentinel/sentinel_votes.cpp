#include "store/redis_sentinel/sentinel_votes.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "util/text.hpp"

namespace dlock::redis_sentinel {
namespace {

std::size_t count_of(const std::vector<SentinelBallot>& ballots, auto is_meant) {
  return static_cast<std::size_t>(std::ranges::count_if(ballots, is_meant));
}

// The votes, without further ones of the same sentinel.
std::vector<const PrimaryVote*> votes_of_different(
    const std::vector<SentinelBallot>& ballots) {
  std::vector<const PrimaryVote*> votes;
  std::set<std::string> seen;
  for (const auto& ballot : ballots) {
    const bool is_other = ballot.id.empty() || seen.insert(ballot.id).second;
    if (ballot.vote && is_other) votes.push_back(&*ballot.vote);
  }
  return votes;
}

bool is_most(std::size_t some, std::size_t all) { return some > all / 2; }

std::optional<std::uint16_t> port_from(const std::string& text) {
  const auto port = number_in<std::uint16_t>(text);
  return port == 0 ? std::nullopt : port;
}

std::optional<ServerAddress> address_from(const std::string& host,
                                          const std::string& port) {
  const auto number = port_from(port);
  if (host.empty() || !number) return std::nullopt;
  return ServerAddress{host, *number};
}

// Whether a sentinel reaches a replica. One that no longer exists stays in the list. Its
// flags show that after down-after, which starts again with a failover; but then the
// sentinel learns its run id anew, with the first INFO, to which a live replica replies
// at once.
bool is_reached(const redis::Fields& replica) {
  const auto flags = redis::field(replica, "flags");
  const auto has = [&](const char* flag) {
    return flags.find(flag) != std::string::npos;
  };
  return !has("s_down") && !has("o_down") && !has("disconnected") &&
         !redis::field(replica, "runid").empty();
}

// Whether it has reported which primary it replicates since the sentinel names the
// current one. The old primary has not: it remains a primary for ten seconds after a
// failover. A replica that is being promoted has, as long as the primary before it is
// named.
bool has_replicated(const redis::Fields& replica) {
  const auto primary = redis::field(replica, "master-host");
  return !primary.empty() && primary != "?";
}

// The lower, the sooner a sentinel promotes it; 0 means never.
unsigned priority(const redis::Fields& replica) {
  return number_in<unsigned>(redis::field(replica, "slave-priority")).value_or(0);
}

// Which replicas are up, and so have to acknowledge a lease. With equal priorities, a
// sentinel promotes one that has replicated rather than one that has not, so the latter
// does not need the lease. With a better priority it could be promoted.
std::map<ServerAddress, bool> replicas_from(const std::vector<Reply>& replies) {
  std::vector<redis::Fields> replicas;
  for (const auto& reply : replies) replicas.push_back(redis::fields_of_pairs(reply));
  unsigned best = std::numeric_limits<unsigned>::max();
  for (const auto& replica : replicas) {
    const bool is_candidate = is_reached(replica) && has_replicated(replica);
    if (is_candidate && priority(replica) > 0) best = std::min(best, priority(replica));
  }
  std::map<ServerAddress, bool> are_up;
  for (const auto& replica : replicas) {
    const auto address =
        address_from(redis::field(replica, "ip"), redis::field(replica, "port"));
    if (!address) continue;
    are_up[*address] =
        is_reached(replica) && (has_replicated(replica) || priority(replica) < best);
  }
  return are_up;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<ServerAddress>& sentinels) {
  std::vector<std::string> names;
  names.reserve(sentinels.size());
  for (const auto& sentinel : sentinels) names.push_back(sentinel.shown());
  return names;
}

std::variant<PrimaryVote, Reply> vote_from(const std::vector<Reply>& replies) {
  PrimaryVote vote;
  const auto& primary = replies.front();
  if (primary.kind == Reply::Kind::array && primary.elements.size() == 2) {
    vote.primary = address_from(primary.elements[0].text, primary.elements[1].text);
    if (!vote.primary) return primary;
  } else if (primary.kind != Reply::Kind::nil) {
    return primary;
  }
  if (!vote.primary || replies.size() == 1) return vote;
  if (replies[1].kind != Reply::Kind::array) return replies[1];
  vote.replicas = replicas_from(replies[1].elements);
  return vote;
}

std::string id_from(const Reply& reply) {
  return reply.kind == Reply::Kind::string ? reply.text : "";
}

PrimaryVote translated(PrimaryVote vote, const AddressMap& addresses) {
  if (vote.primary) vote.primary = addresses.used_for(std::move(*vote.primary));
  std::map<ServerAddress, bool> replicas;
  for (const auto& [replica, is_up] : vote.replicas) {
    replicas[addresses.used_for(replica)] = is_up;
  }
  vote.replicas = std::move(replicas);
  return vote;
}

std::optional<Failure> same_sentinel(const std::vector<std::string>& names,
                                     const std::vector<SentinelBallot>& ballots) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < ballots.size(); ++i) {
    if (ballots[i].id.empty()) continue;
    const auto [other, is_new] = seen.emplace(ballots[i].id, i);
    if (is_new) continue;
    return Failure::misconfigured(names[other->second] + " and " + names[i] +
                                  " are the same sentinel: name each sentinel once");
  }
  return std::nullopt;
}

std::optional<ServerAddress> elected(const std::vector<SentinelBallot>& ballots) {
  std::map<ServerAddress, std::size_t> votes;
  for (const auto* vote : votes_of_different(ballots)) {
    if (vote->primary) ++votes[*vote->primary];
  }
  for (const auto& [address, number] : votes) {
    if (is_most(number, ballots.size())) return address;
  }
  return std::nullopt;
}

namespace {

struct VoteCount {
  std::size_t for_it = 0;
  std::size_t against = 0;
};

VoteCount count_on(const ServerAddress& address,
                   const std::vector<SentinelBallot>& ballots) {
  VoteCount count;
  for (const auto* vote : votes_of_different(ballots)) {
    if (!vote->primary) continue;
    ++(*vote->primary == address ? count.for_it : count.against);
  }
  return count;
}

}  // namespace

bool is_certain(const ServerAddress& address,
                const std::vector<SentinelBallot>& ballots) {
  const auto count = count_on(address, ballots);
  return is_most(count.for_it, ballots.size()) || is_most(count.against, ballots.size());
}

Opinion opinion_on(const ServerAddress& address,
                   const std::vector<SentinelBallot>& ballots) {
  const auto count = count_on(address, ballots);
  if (is_most(count.for_it, ballots.size())) return Opinion::confirmed;
  return is_most(count.against, count.for_it + count.against) ? Opinion::denied
                                                              : Opinion::unknown;
}

bool is_other_named(const ServerAddress& address,
                    const std::vector<SentinelBallot>& ballots) {
  return count_on(address, ballots).against > 0;
}

unsigned replicas_up(const ServerAddress& primary,
                     const std::vector<SentinelBallot>& ballots) {
  std::map<ServerAddress, std::size_t> down;
  for (const auto* vote : votes_of_different(ballots)) {
    for (const auto& [replica, is_up] : vote->replicas) {
      if (replica != primary) down[replica] += is_up ? 0 : 1;
    }
  }
  return static_cast<unsigned>(std::ranges::count_if(
      down, [&](const auto& one) { return !is_most(one.second, ballots.size()); }));
}

Failure no_primary_elected(const std::string& master,
                           const std::vector<std::string>& names,
                           const std::vector<SentinelBallot>& ballots) {
  for (const auto& ballot : ballots) {
    const bool is_short =
        ballot.failure && ballot.failure->kind() == Failure::Kind::exhausted;
    if (is_short) return *ballot.failure;
  }
  const auto quoted = "'" + printable(master, 200) + "'";
  const auto all = ballots.size();
  const auto know_none = count_of(ballots, [](const SentinelBallot& ballot) {
    return ballot.vote && !ballot.vote->primary;
  });
  if (is_most(know_none, all)) {
    return Failure::misconfigured("no primary is named " + quoted + " (unknown to " +
                                  std::to_string(know_none) + " of " +
                                  std::to_string(all) + " sentinels)");
  }
  auto kind = Failure::Kind::unreachable;
  for (const auto lasting : {Failure::Kind::rejected, Failure::Kind::misconfigured}) {
    const auto number = count_of(ballots, [&](const SentinelBallot& ballot) {
      return ballot.failure && ballot.failure->kind() == lasting;
    });
    if (is_most(number, all)) kind = lasting;
  }
  const auto failed = std::ranges::find_if(
      ballots, [](const SentinelBallot& ballot) { return ballot.failure.has_value(); });
  std::string why;
  if (failed != ballots.end()) {
    why = std::string(": ") + failed->failure->what();
  } else if (const auto open = std::ranges::find_if(
                 ballots, [](const SentinelBallot& ballot) { return ballot.is_open(); });
             open != ballots.end()) {
    const auto& name = names[static_cast<std::size_t>(open - ballots.begin())];
    why = ": " + name + " does not reply";
  } else {
    why = ": they disagree";
  }
  if (all == 1) return Failure(kind, "the sentinel names no primary " + quoted + why);
  return Failure(kind, "no majority of " + std::to_string(all) +
                           " sentinels agrees on a primary for " + quoted + why);
}

}  // namespace dlock::redis_sentinel
