// Judges a quorum: findings from the facts about its servers.
#include <algorithm>
#include <map>

#include "store/checks.hpp"
#include "store/redis/node.hpp"
#include "store/redis/redis_facts.hpp"
#include "store/redis_quorum/quorum_store.hpp"
#include "store/redis_quorum/tally.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

using Level = Finding::Level;
using redis::RedisFacts;
using std::chrono::microseconds;

Finding reachable(const std::vector<RedisFacts>& servers) {
  Reached reached;
  for (const auto& one : servers) reached.failures.push_back(one.failure);
  reached.needed = needed(servers.size());
  reached.what = " reply, " + std::to_string(reached.needed) + " required";
  reached.advice =
      "check that they run, that the store URL names them correctly, and that they "
      "accept connections from this machine";
  reached.advice_if_too_few = reached.advice;
  return reached_finding("servers", reached);
}

Finding distinct(const std::vector<RedisFacts>& servers) {
  std::map<std::string, std::string> seen;
  for (const auto& one : servers) {
    const auto run_id = redis::field(one.info, "run_id");
    if (run_id.empty()) continue;
    const auto [other, is_new] = seen.emplace(run_id, one.server);
    if (is_new) continue;
    return {"run-ids", Level::error,
            other->second + " and " + one.server + " are the same server",
            "name each server once in the store URL"};
  }
  if (seen.empty()) {
    return not_checked("run-ids", "no server reports its run_id");
  }
  return {"run-ids", Level::ok, "all different", ""};
}

// How long a server has been up at least; nothing if it does not say.
std::optional<milliseconds> uptime_of(const RedisFacts& facts) {
  const auto now = Clock::now();
  const auto life = redis::life_from(
      "run_id:" + redis::field(facts.info, "run_id") +
          "\r\nuptime_in_seconds:" + redis::field(facts.info, "uptime_in_seconds"),
      now);
  if (!life) return std::nullopt;
  return std::chrono::floor<milliseconds>(now - life->began);
}

Finding uptimes(const std::vector<RedisFacts>& servers, const QuorumTerms& terms) {
  if (terms.max_ttl.count() == 0) {
    return {"uptime", Level::ok, "not needed: --max-ttl is 0", ""};
  }
  std::vector<std::string> without;
  std::size_t known = 0;
  for (const auto& one : servers) {
    const auto up = uptime_of(one);
    if (!up) continue;
    ++known;
    if (*up < terms.max_ttl) without.push_back(one.server);
  }
  if (known == 0) {
    return not_checked("uptime", "no server reports its uptime");
  }
  const auto span = for_people(terms.max_ttl);
  if (without.empty()) {
    return {"uptime", Level::ok,
            "all have been up for " + span + " (--max-ttl) or longer", ""};
  }
  const bool is_enough = servers.size() - without.size() >= needed(servers.size());
  return {"uptime", is_enough ? Level::warning : Level::error,
          listed(without) + ": no vote until up for " + span + " (--max-ttl)",
          "wait, or set a shorter --max-ttl; no lease may be longer than it"};
}

}  // namespace

std::vector<Finding> findings_of(const std::vector<RedisFacts>& servers,
                                 const QuorumTerms& terms) {
  std::vector<Finding> findings{reachable(servers), distinct(servers),
                                uptimes(servers, terms)};
  // Each server times leases by its own clock; the clocks only need to agree on the order
  // of the queue.
  findings.push_back(
      clocks_finding("servers", redis::clock_spread(servers),
                     ": a server whose clock steps can lose leases",
                     "synchronize the clocks of all servers by slewing (chrony, ntpd)"));
  for (const auto& server : servers) {
    if (server.failure) continue;  // reported above
    for (auto& found : redis::findings_of(server)) {
      const bool is_covered = found.check == "persistence" && terms.max_ttl.count() > 0;
      if (is_covered && found.level == Level::warning) {
        found.level = Level::info;
        found.message = "none: a restarted server has no vote for --max-ttl";
        found.advice.clear();
      }
      add_worst(findings, std::move(found), server.server);
    }
  }
  return findings;
}

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto servers =
      co_await redis::facts_of_all(context, redis::targets_of(url), name_space, timeout,
                                   wakeup, redis::needed_in_quorum);
  co_return redis::examination_of(findings_of(servers, url.terms), servers);
}

}  // namespace dlock::redis_quorum
