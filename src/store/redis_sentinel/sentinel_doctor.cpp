// Examines sentinels and the servers that they watch. It changes nothing there.
#include <algorithm>
#include <set>
#include <utility>

#include "store/checks.hpp"
#include "store/fan_out.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_facts.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_sentinel/sentinel_route.hpp"
#include "store/store_url.hpp"
#include "util/text.hpp"

namespace dlock::redis_sentinel {
namespace {

// What they have reported; fields are empty where they did not.
struct SentinelFacts {
  std::string master;                   // the master name
  std::vector<std::string> names;       // of the sentinels, for messages
  std::vector<SentinelBallot> ballots;  // in the same order
  std::vector<std::string> tilted;
  // The longest time after which one of them considers the primary dead.
  std::optional<milliseconds> down_after;
  // How far the clock of each replica is ahead of the primary's.
  std::vector<std::pair<std::string, std::chrono::microseconds>> clocks_ahead;
};

using redis::Command;

// The replies within the budget; empty if there are none.
asio::awaitable<std::vector<Reply>> answers_of(asio::io_context& context,
                                               const redis::Target& target,
                                               std::vector<Command> commands,
                                               milliseconds timeout, Wakeup& wakeup) {
  try {
    redis::RedisConnection connection(context, target);
    co_return co_await connection.exchange(std::move(commands), wakeup.within(timeout));
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return std::vector<Reply>{};
}

std::optional<milliseconds> down_after_in(const Reply& primary) {
  for (std::size_t i = 0; i + 1 < primary.elements.size(); i += 2) {
    if (primary.elements[i].text != "down-after-milliseconds") continue;
    return redis::milliseconds_from(primary.elements[i + 1].text);
  }
  return std::nullopt;
}

// Those that have voted.
asio::awaitable<void> ask_sentinels(asio::io_context& context, const StoreUrl& url,
                                    milliseconds timeout, SentinelFacts& facts,
                                    Wakeup& wakeup) {
  std::vector<std::size_t> voters;
  for (std::size_t i = 0; i < url.servers.size(); ++i) {
    if (facts.ballots[i].vote) voters.push_back(i);
  }
  const auto ask = [&context, sentinels = redis::sentinels_of(url), master = url.master,
                    timeout, voters](std::size_t number, Wakeup& own) {
    std::vector<Command> commands;
    commands.push_back({"SENTINEL", "MASTER", master});
    commands.push_back({"INFO", "sentinel"});
    return answers_of(context, sentinels[voters[number]], std::move(commands), timeout,
                      own);
  };
  const auto answers =
      co_await ask_all<std::vector<Reply>>(context, voters.size(), ask, wakeup);
  for (std::size_t i = 0; i < voters.size(); ++i) {
    const auto& replies = answers[i];
    if (replies.size() != 2) continue;
    if (const auto after = down_after_in(replies[0])) {
      facts.down_after = std::max(facts.down_after.value_or(*after), *after);
    }
    const auto info = redis::fields_of_info(replies[1].text);
    const auto tilt = info.find("sentinel_tilt");
    if (tilt != info.end() && tilt->second == "1") {
      facts.tilted.push_back(facts.names[voters[i]]);
    }
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

using Level = Finding::Level;

// From the detection of a dead primary until the next one accepts writes: the sentinels'
// vote, which begins up to a second late, and the promotion.
constexpr milliseconds election{1300};

Finding sentinels(const SentinelFacts& facts) {
  // They have one vote, so this can also be why no primary is elected.
  if (const auto twins = same_sentinel(facts.names, facts.ballots)) {
    return {"sentinels", Level::error, twins->what(),
            "name each sentinel once in the store URL"};
  }
  const auto primary = elected(facts.ballots);
  if (!primary) {
    return {"sentinels", Level::error,
            no_primary_elected(facts.master, facts.names, facts.ballots).what(),
            "in the store URL, name all sentinels, and the primary as `sentinel monitor` "
            "does"};
  }
  const auto all = facts.ballots.size();
  const auto agree = static_cast<std::size_t>(std::count_if(
      facts.ballots.begin(), facts.ballots.end(), [&](const SentinelBallot& one) {
        return one.vote && one.vote->primary == primary;
      }));
  auto message = std::to_string(agree) + " of " + std::to_string(all) + " name " +
                 printable(primary->host, 200) + ":" + std::to_string(primary->port);
  if (agree == all && all < 3) {
    return {"sentinels", Level::warning, message + ": too few to survive the loss of one",
            "run three or more, each on its own machine"};
  }
  if (agree == all) return {"sentinels", Level::ok, message, ""};
  for (std::size_t i = 0; i < all; ++i) {
    const auto& ballot = facts.ballots[i];
    if (ballot.failure) {
      message += "; " + std::string(ballot.failure->what());
    } else if (!ballot.vote || ballot.vote->primary != primary) {
      message += "; " + facts.names[i] + " does not";
    }
  }
  return {"sentinels", Level::warning, message,
          "locks work while more than half agree: check the logs of the others"};
}

Finding failover(const SentinelFacts& facts) {
  if (!facts.down_after) {
    return not_checked("failover", "no sentinel reports its settings");
  }
  return failover_finding(
      *facts.down_after + election,
      "detected after " + for_people(*facts.down_after) + " (down-after-milliseconds); ",
      "a failover",
      "SENTINEL SET " + printable_command({facts.master}, 200) +
          " down-after-milliseconds 5000, or a longer --ttl");
}

Finding replicas(const SentinelFacts& facts) {
  const auto up = replicas_up(*elected(facts.ballots), facts.ballots);
  if (up > 0) {
    return {"replicas-up", Level::ok,
            std::to_string(up) +
                " according to most sentinels; --replicas all waits for them",
            ""};
  }
  return {"replicas-up", Level::warning,
          "none according to most sentinels: no failover is possible, and --replicas all "
          "grants nothing",
          "restore a replica"};
}

Finding tilt(const SentinelFacts& facts) {
  if (facts.tilted.empty()) return {"tilt", Level::ok, "none", ""};
  return {"tilt", Level::warning,
          listed(facts.tilted) + " is in TILT mode and performs no failover",
          "check whether its machine's clock jumps or the machine is overloaded"};
}

Finding clocks(const SentinelFacts& facts) {
  for (const auto& [name, ahead] : facts.clocks_ahead) {
    if (std::chrono::abs(ahead) < clocks_agree_within) continue;
    return {"replica-clocks", Level::warning,
            name + " is " + distance_of(ahead) +
                " the primary: after a failover, leases end too late or too early",
            "synchronize the clocks of all servers (chrony, ntpd)"};
  }
  if (facts.clocks_ahead.empty()) {
    return not_checked("replica-clocks", "no replica reports its time");
  }
  return {"replica-clocks", Level::ok, "agree with the primary's", ""};
}

// One finding for each check.
std::vector<Finding> findings_of(const SentinelFacts& facts) {
  std::vector<Finding> findings{sentinels(facts)};
  if (!elected(facts.ballots)) return findings;
  for (const auto check : {failover, replicas, tilt, clocks}) {
    findings.push_back(check(facts));
  }
  return findings;
}

}  // namespace

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  SentinelFacts facts;
  facts.master = url.master;
  facts.names = names_of(url.servers);
  const auto call = wakeup.within(timeout);
  Discovery discovery(context, url, true, call.until);
  const auto never = [](const std::vector<SentinelBallot>&) { return false; };
  co_await discovery.wait(never, call);
  facts.ballots = discovery.ballots();
  const auto address = elected(facts.ballots);
  if (!address) co_return redis::examination_of(findings_of(facts), {});
  co_await ask_sentinels(context, url, timeout, facts, wakeup);
  auto primary = redis::login_target(url).at(*address);
  primary.announced_by = announced_by;
  primary.mapped_from = url.addresses.announced_for(*address);
  auto targets = replicas_in(facts, url);
  targets.insert(targets.begin(), primary);
  auto servers =
      co_await redis::facts_of_all(context, std::move(targets), name_space, timeout,
                                   wakeup, redis::needed_on_replicated);
  auto& server = servers.front();
  if (server.failure) server.failure = primary.with_origin(*server.failure);
  for (std::size_t i = 1; i < servers.size() && server.clock_ahead; ++i) {
    if (!servers[i].clock_ahead) continue;
    facts.clocks_ahead.emplace_back(servers[i].server,
                                    *servers[i].clock_ahead - *server.clock_ahead);
  }
  auto findings = findings_of(facts);
  for (auto& found : redis::findings_of(server)) findings.push_back(std::move(found));
  co_return redis::examination_of(std::move(findings), {&server, 1});
}

}  // namespace dlock::redis_sentinel
