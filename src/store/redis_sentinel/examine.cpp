// Collects the facts about sentinels and servers that matter to locks. It changes nothing
// there.
#include "store/redis/examine.hpp"

#include <algorithm>
#include <set>

#include "store/redis/connection.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_sentinel/discovery.hpp"
#include "store/redis_sentinel/health.hpp"
#include "store/redis_sentinel/plan.hpp"
#include "store/redis_sentinel/sentinel_route.hpp"
#include "store/round_trips.hpp"

namespace dlock::redis_sentinel {
namespace {

using redis::Command;
using std::chrono::microseconds;

// How far a server's clock is ahead of ours; nothing if it does not say.
using ClockAhead = std::optional<microseconds>;

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

asio::awaitable<void> ask_sentinels(asio::io_context& context, const Plan& plan,
                                    milliseconds timeout, SentinelFacts& facts,
                                    Wakeup& wakeup) {
  for (std::size_t i = 0; i < plan.sentinels.size(); ++i) {
    if (!facts.ballots[i].vote) continue;
    std::vector<Command> commands;
    commands.push_back({"SENTINEL", "MASTER", plan.master});
    commands.push_back({"INFO", "sentinel"});
    const auto replies = co_await answers_of(context, plan.sentinels[i],
                                             std::move(commands), timeout, wakeup);
    if (replies.size() != 2) continue;
    if (const auto after = down_after_in(replies[0])) {
      facts.down_after = std::max(facts.down_after.value_or(*after), *after);
    }
    const auto info = redis::fields_of_info(replies[1].text);
    const auto tilt = info.find("sentinel_tilt");
    if (tilt != info.end() && tilt->second == "1") facts.tilted.push_back(facts.names[i]);
  }
}

asio::awaitable<void> compare_clocks(asio::io_context& context, const Plan& plan,
                                     const std::string& name_space, milliseconds timeout,
                                     ClockAhead primary, SentinelFacts& facts,
                                     Wakeup& wakeup) {
  std::set<Address> replicas;
  for (const auto& ballot : facts.ballots) {
    if (!ballot.vote) continue;
    for (const auto& [replica, is_up] : ballot.vote->replicas) {
      if (is_up) replicas.insert(replica);
    }
  }
  for (const auto& address : replicas) {
    const auto target = plan.server.at(address.host, address.port);
    const auto found =
        co_await redis::facts_of(context, target, name_space, timeout, wakeup);
    if (primary && found.clock_ahead) {
      facts.clocks_ahead.emplace_back(target.shown(), *found.clock_ahead - *primary);
    }
  }
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
  Examination examination;
  const auto address = elected(facts.ballots);
  if (!address) {
    examination.findings = findings_of(facts);
    co_return examination;
  }
  co_await ask_sentinels(context, plan, timeout, facts, wakeup);
  auto primary = plan.server.at(address->host, address->port);
  primary.announced_by = announced_by;
  auto server = co_await redis::facts_of(context, primary, name_space, timeout, wakeup,
                                         redis::needed_on_replicated);
  if (server.failure) server.failure = primary.with_origin(*server.failure);
  co_await compare_clocks(context, plan, name_space, timeout, server.clock_ahead, facts,
                          wakeup);
  examination.findings = findings_of(facts);
  const auto of_server = redis::findings_of(server);
  examination.findings.insert(examination.findings.end(), of_server.begin(),
                              of_server.end());
  examination.round_trip = median_of(server.round_trips);
  if (examination.round_trip) {
    examination.smallest_ttl =
        smallest_ttl_for(needed_budget(*examination.round_trip, server.trips_to_renew));
  }
  co_return examination;
}

}  // namespace dlock::redis_sentinel
