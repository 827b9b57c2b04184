// Collects the facts about sentinels and servers that matter to locks. It changes nothing
// there.
#include "store/redis/examine.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "store/redis/connection.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_sentinel/discovery.hpp"
#include "store/redis_sentinel/health.hpp"
#include "store/redis_sentinel/plan.hpp"
#include "store/redis_sentinel/sentinel_route.hpp"
#include "store/round.hpp"

namespace dlock::redis_sentinel {
namespace {

using redis::Command;

// The replies within the budget; empty if there are none.
asio::awaitable<std::vector<Reply>> answers_of(asio::io_context& context,
                                               const redis::Target& target,
                                               std::vector<Command> commands,
                                               milliseconds timeout, Wakeup& wakeup) {
  try {
    redis::Connection connection(context, target);
    co_return co_await connection.exchange(std::move(commands),
                                           later(Clock::now(), timeout), wakeup);
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
asio::awaitable<void> ask_sentinels(asio::io_context& context, const Plan& plan,
                                    milliseconds timeout, SentinelFacts& facts,
                                    Wakeup& wakeup) {
  std::vector<std::size_t> voters;
  for (std::size_t i = 0; i < plan.sentinels.size(); ++i) {
    if (facts.ballots[i].vote) voters.push_back(i);
  }
  const auto ask = [&context, plan, timeout, voters](std::size_t number, Wakeup& own) {
    std::vector<Command> commands;
    commands.push_back({"SENTINEL", "MASTER", plan.master});
    commands.push_back({"INFO", "sentinel"});
    return answers_of(context, plan.sentinels[voters[number]], std::move(commands),
                      timeout, own);
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
std::vector<redis::Target> replicas_in(const SentinelFacts& facts, const Plan& plan) {
  std::set<Address> addresses;
  for (const auto& ballot : facts.ballots) {
    if (!ballot.vote) continue;
    for (const auto& [replica, is_up] : ballot.vote->replicas) {
      if (is_up) addresses.insert(replica);
    }
  }
  std::vector<redis::Target> replicas;
  for (const auto& address : addresses) {
    replicas.push_back(plan.server.at(address.host, address.port));
  }
  return replicas;
}

}  // namespace

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<redis::RedisStore>(
      context, plan.url(), std::make_unique<SentinelRoute>(context, plan, timeout));
}

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  SentinelFacts facts;
  facts.master = plan.master;
  for (const auto& sentinel : plan.sentinels) facts.names.push_back(sentinel.shown());
  const auto until = later(Clock::now(), timeout);
  Discovery discovery(context, plan, true, until);
  const auto never = [](const std::vector<Ballot>&) { return false; };
  co_await discovery.wait(never, until, wakeup);
  facts.ballots = discovery.ballots();
  const auto address = elected(facts.ballots);
  if (!address) co_return redis::examination_of(findings_of(facts), {});
  co_await ask_sentinels(context, plan, timeout, facts, wakeup);
  auto primary = plan.server.at(address->host, address->port);
  primary.announced_by = announced_by;
  auto targets = replicas_in(facts, plan);
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
