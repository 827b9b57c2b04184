// Examines sentinels and the servers that they watch. It changes nothing there.
#include <algorithm>
#include <set>
#include <utility>

#include "store/fan_out.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_health.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_sentinel/sentinel_route.hpp"
#include "store/store_url.hpp"
#include "util/text.hpp"

namespace dlock::redis_sentinel {
namespace {

// What they have reported; fields are empty where they did not.
struct SentinelFacts {
  std::string master;                    // the master name
  std::vector<std::string> names;        // of the sentinels, for messages
  std::vector<SentinelBallot> ballots;   // in the same order
  std::optional<ServerAddress> primary;  // that they have elected
  std::vector<std::string> tilted;
  // The longest time after which one of them considers the primary dead.
  std::optional<milliseconds> down_after;
  std::vector<redis::RedisFacts> servers;  // the primary, and behind it the replicas
};

using Replies = std::vector<Reply>;

// Asks those that have voted for their settings and their state.
asio::awaitable<void> ask_sentinels(const ExaminationOrder& order, SentinelFacts& facts) {
  const auto ask = [order, sentinels = redis::sentinels_of(order.url),
                    ballots = facts.ballots](std::size_t number,
                                             Wakeup& own) -> asio::awaitable<Replies> {
    std::vector<redis::Command> commands(2);
    commands[0] = {"SENTINEL", "MASTER", order.url.master};
    commands[1] = {"INFO", "sentinel"};
    const auto call = own.within(order.timeout);
    try {
      redis::RedisConnection connection(order.context, sentinels[number]);
      if (ballots[number].vote) co_return co_await connection.exchange(commands, call);
    } catch (const Failure& failure) {
      let_pass(failure);
    }
    co_return Replies(2);
  };
  const auto answers =
      co_await ask_all<Replies>(order.context, facts.names.size(), ask, order.wakeup);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto settings = redis::fields_of_pairs(answers[i][0]);
    facts.down_after = std::max(
        facts.down_after,
        redis::milliseconds_from(redis::field(settings, "down-after-milliseconds")));
    const auto info = redis::fields_of_info(answers[i][1].text);
    const bool is_tilted = redis::field(info, "sentinel_tilt") == "1";
    if (is_tilted) facts.tilted.push_back(facts.names[i]);
  }
}

// The primary, and the replicas that are up according to a sentinel.
std::vector<redis::Target> targets_of(const SentinelFacts& facts, const StoreUrl& url) {
  const auto login = redis::login_target(url);
  std::set<ServerAddress> replicas;
  for (const auto& ballot : facts.ballots) {
    if (!ballot.vote) continue;
    for (const auto& [replica, is_up] : ballot.vote->replicas) {
      if (is_up) replicas.insert(replica);
    }
  }
  std::vector<redis::Target> targets{login.at(*facts.primary)};
  targets.front().announced_by = announced_by;
  targets.front().mapped_from = url.addresses.announced_for(*facts.primary);
  for (const auto& address : replicas) targets.push_back(login.at(address));
  return targets;
}

void sentinels(const SentinelFacts& facts, CheckReport& say) {
  // They have one vote, so this can also be why no primary is elected.
  if (const auto twins = same_sentinel(facts.names, facts.ballots)) {
    return say.error(twins->what(), "name each sentinel once in the store URL");
  }
  const auto& primary = facts.primary;
  if (!primary) {
    return say.error(no_primary_elected(facts.master, facts.names, facts.ballots).what(),
                     "in the store URL, name all sentinels, and the primary as `sentinel "
                     "monitor` does");
  }
  const auto all = facts.ballots.size();
  std::size_t agree = 0;
  std::string others;
  for (std::size_t i = 0; i < all; ++i) {
    const auto& [vote, failure, id] = facts.ballots[i];
    const bool agrees = vote && vote->primary == primary;
    agree += agrees ? 1 : 0;
    if (!agrees)
      others += "; " + (failure ? failure->what() : facts.names[i] + " does not");
  }
  const auto message = joined(agree, " of ", all, " name ", printable(primary->host, 200),
                              ":", primary->port);
  if (agree < all) {
    return say.warning(message + others,
                       "locks work while more than half agree: check the logs of the "
                       "others");
  }
  if (all >= 3) return say.ok(message);
  say.warning(message + ": too few to survive the loss of one",
              "run three or more, each on its own machine");
}

void failover(const SentinelFacts& facts, CheckReport& say) {
  judge_failover(facts.down_after, "down-after-milliseconds",
                 "SENTINEL SET " + printable_command({facts.master}, 200) +
                     " down-after-milliseconds 5000, or a longer --ttl",
                 say);
}

void replicas(const SentinelFacts& facts, CheckReport& say) {
  const auto up = replicas_up(*facts.primary, facts.ballots);
  const auto connected =
      number_in<unsigned>(facts.servers.front().said("connected_slaves"));
  if (connected > up) {
    return say.info(
        joined(up, " according to most sentinels, but ", *connected,
               " connected to the primary; --replicas all waits for these"),
        "replica-announced no hides a replica, and one address for two counts once; with "
        "replica-priority 0 it is never promoted");
  }
  if (up > 0) {
    return say.ok(up, " according to most sentinels; --replicas all waits for them");
  }
  say.warning(
      "none according to most sentinels: no failover is possible, and --replicas all "
      "grants nothing",
      "restore a replica");
}

void tilt(const SentinelFacts& facts, CheckReport& say) {
  if (facts.tilted.empty()) return say.ok("none");
  say.warning(listed(facts.tilted) + " is in TILT mode and performs no failover",
              "check whether its machine's clock jumps or the machine is overloaded");
}

void clocks(const SentinelFacts& facts, CheckReport& say) {
  judge_clocks(servers_of(facts.servers), say);
}

constexpr Check<SentinelFacts> checks[] = {
    {"sentinels", sentinels, "", true}, {"failover", failover},
    {"replicas-up", replicas},          {"tilt", tilt},
    {"replica-clocks", clocks},
};

}  // namespace

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  SentinelFacts facts;
  facts.master = order.url.master;
  facts.names = names_of(order.url.servers);
  const auto call = order.wakeup.within(order.timeout);
  Discovery discovery(order.context, order.url, true, call.until);
  const auto is_elected = [](const std::vector<SentinelBallot>& ballots) {
    return elected(ballots).has_value();
  };
  co_await discovery.wait(is_elected, call);
  // The others get as long as a run gives them: the primary needs time as well.
  const auto never = [](const std::vector<SentinelBallot>&) { return false; };
  co_await discovery.wait(never, call.within(order.store_timeout));
  facts.ballots = discovery.ballots();
  facts.primary = elected(facts.ballots);
  if (facts.primary) {
    co_await ask_sentinels(order, facts);
    auto targets = targets_of(facts, order.url);
    const auto primary = targets.front();
    facts.servers = co_await redis::facts_of_all(order, std::move(targets),
                                                 redis::needed_on_replicated);
    auto& failure = facts.servers.front().failure;
    if (failure) failure = primary.with_origin(*failure);
  }
  auto examination = judged(checks, facts);
  facts.servers.resize(facts.primary ? 1 : 0);
  redis::add_examinations_of(facts.servers, examination);
  co_return examination;
}

}  // namespace dlock::redis_sentinel
