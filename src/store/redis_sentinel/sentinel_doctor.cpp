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
  // How far the clock of each replica is ahead of the primary's.
  std::vector<std::pair<std::string, std::chrono::microseconds>> clocks_ahead;
};

using redis::Command;

std::optional<milliseconds> down_after_in(const Reply& primary) {
  for (std::size_t i = 0; i + 1 < primary.elements.size(); i += 2) {
    if (primary.elements[i].text != "down-after-milliseconds") continue;
    return redis::milliseconds_from(primary.elements[i + 1].text);
  }
  return std::nullopt;
}

// Asks those that have voted. Fields stay empty where one does not reply.
asio::awaitable<void> ask_sentinels(asio::io_context& context,
                                    const ExaminationOrder& order, SentinelFacts& facts,
                                    Wakeup& wakeup) {
  const auto ask =
      [loop = &context, sentinels = redis::sentinels_of(order.url),
       master = order.url.master, timeout = order.timeout, ballots = facts.ballots](
          std::size_t number, Wakeup& own) -> asio::awaitable<std::vector<Reply>> {
    if (!ballots[number].vote) co_return std::vector<Reply>{};
    std::vector<Command> commands(2);
    commands[0] = {"SENTINEL", "MASTER", master};
    commands[1] = {"INFO", "sentinel"};
    try {
      redis::RedisConnection connection(*loop, sentinels[number]);
      co_return co_await connection.exchange(std::move(commands), own.within(timeout));
    } catch (const Failure& failure) {
      let_pass(failure);
    }
    co_return std::vector<Reply>{};
  };
  const auto answers =
      co_await ask_all<std::vector<Reply>>(context, facts.names.size(), ask, wakeup);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].size() != 2) continue;
    if (const auto after = down_after_in(answers[i][0])) {
      facts.down_after = std::max(facts.down_after.value_or(*after), *after);
    }
    const auto info = redis::fields_of_info(answers[i][1].text);
    if (redis::field(info, "sentinel_tilt") == "1")
      facts.tilted.push_back(facts.names[i]);
  }
}

// The replicas that are up according to a sentinel.
std::vector<redis::Target> replicas_in(const SentinelFacts& facts, const StoreUrl& url) {
  std::set<ServerAddress> addresses;
  for (const auto& ballot : facts.ballots) {
    if (!ballot.vote) continue;
    for (const auto& [replica, is_up] : ballot.vote->replicas) {
      if (is_up) addresses.insert(replica);
    }
  }
  std::vector<redis::Target> replicas;
  for (const auto& address : addresses) {
    replicas.push_back(redis::login_target(url).at(address));
  }
  return replicas;
}

// From the detection of a dead primary until the next one accepts writes: the sentinels'
// vote, which begins up to a second late, and the promotion.
constexpr milliseconds election{1300};

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
    const auto& ballot = facts.ballots[i];
    if (ballot.failure) {
      others += "; " + std::string(ballot.failure->what());
    } else if (!ballot.vote || ballot.vote->primary != primary) {
      others += "; " + facts.names[i] + " does not";
    } else {
      ++agree;
    }
  }
  const auto message = std::to_string(agree) + " of " + std::to_string(all) + " name " +
                       printable(primary->host, 200) + ":" +
                       std::to_string(primary->port);
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
  if (!facts.down_after) return say.not_checked("no sentinel reports its settings");
  judge_failover(
      *facts.down_after + election,
      "detected after " + for_people(*facts.down_after) + " (down-after-milliseconds); ",
      "a failover",
      "SENTINEL SET " + printable_command({facts.master}, 200) +
          " down-after-milliseconds 5000, or a longer --ttl",
      say);
}

void replicas(const SentinelFacts& facts, CheckReport& say) {
  const auto up = replicas_up(*facts.primary, facts.ballots);
  if (up > 0) {
    return say.ok(std::to_string(up) +
                  " according to most sentinels; --replicas all waits for them");
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
  for (const auto& [name, ahead] : facts.clocks_ahead) {
    if (std::chrono::abs(ahead) < clocks_agree_within) continue;
    return say.warning(name + " is " + distance_of(ahead) +
                           " the primary: after a failover, leases end too late or too "
                           "early",
                       synchronize_clocks);
  }
  if (facts.clocks_ahead.empty()) {
    return say.not_checked("no replica reports its time");
  }
  say.ok("agree with the primary's");
}

constexpr Check<SentinelFacts> checks[] = {
    {"sentinels", sentinels, "", true}, {"failover", failover},
    {"replicas-up", replicas},          {"tilt", tilt},
    {"replica-clocks", clocks},
};

}  // namespace

asio::awaitable<Examination> examine(const ExaminationOrder& order,
                                     asio::io_context& context, Wakeup& wakeup) {
  const auto& url = order.url;
  SentinelFacts facts;
  facts.master = url.master;
  facts.names = names_of(url.servers);
  const auto call = wakeup.within(order.timeout);
  Discovery discovery(context, url, true, call.until);
  const auto never = [](const std::vector<SentinelBallot>&) { return false; };
  co_await discovery.wait(never, call);
  facts.ballots = discovery.ballots();
  facts.primary = elected(facts.ballots);
  std::vector<redis::RedisFacts> servers;
  if (facts.primary) {
    co_await ask_sentinels(context, order, facts, wakeup);
    auto primary = redis::login_target(url).at(*facts.primary);
    primary.announced_by = announced_by;
    primary.mapped_from = url.addresses.announced_for(*facts.primary);
    auto targets = replicas_in(facts, url);
    targets.insert(targets.begin(), primary);
    servers = co_await redis::facts_of_all(context, std::move(targets), order, wakeup,
                                           redis::needed_on_replicated);
    auto& failure = servers.front().failure;
    if (failure) failure = primary.with_origin(*failure);
    const auto clock = servers.front().clock_ahead;
    for (std::size_t i = 1; i < servers.size(); ++i) {
      const auto& one = servers[i];
      if (!clock || !one.clock_ahead) continue;
      facts.clocks_ahead.emplace_back(one.server, *one.clock_ahead - *clock);
    }
    servers.resize(1);
  }
  std::vector<Finding> findings;
  if (judge<SentinelFacts>(checks, facts, findings)) {
    const auto of_primary = redis::findings_of(servers.front());
    findings.insert(findings.end(), of_primary.begin(), of_primary.end());
  }
  co_return redis::examination_of(std::move(findings), servers);
}

}  // namespace dlock::redis_sentinel
