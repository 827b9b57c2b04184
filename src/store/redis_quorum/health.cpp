#include "store/redis_quorum/health.hpp"

#include <algorithm>
#include <map>

#include "store/redis/health_settings.hpp"
#include "store/redis/life.hpp"
#include "store/redis_quorum/majority.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

using Level = Finding::Level;
using redis::Facts;
using std::chrono::microseconds;

// Each server times leases by its own clock; the clocks only need to agree on the order
// of the queue.
constexpr microseconds close_enough{1'000'000};

Finding reachable(const std::vector<Facts>& servers) {
  const auto there = static_cast<std::size_t>(
      std::count_if(servers.begin(), servers.end(),
                    [](const Facts& one) { return !one.failure.has_value(); }));
  auto message = std::to_string(there) + " of " + std::to_string(servers.size()) +
                 " reply, " + std::to_string(needed(servers.size())) + " required";
  if (there == servers.size()) return {"servers", Level::ok, message, ""};
  for (const auto& one : servers) {
    if (one.failure) message += "; " + std::string(one.failure->what());
  }
  const bool is_enough = there >= needed(servers.size());
  return {"servers", is_enough ? Level::warning : Level::error, message,
          "check that they run, that the store URL names them correctly, and that they "
          "accept connections from this machine"};
}

Finding distinct(const std::vector<Facts>& servers) {
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
    return {"run-ids", Level::info, "not checked: no server reports its run_id", "",
            false};
  }
  return {"run-ids", Level::ok, "all different", ""};
}

// How long a server has been up at least; nothing if it does not say.
std::optional<milliseconds> uptime_of(const Facts& facts) {
  const auto now = Clock::now();
  const auto life = redis::life_from(
      "run_id:" + redis::field(facts.info, "run_id") +
          "\r\nuptime_in_seconds:" + redis::field(facts.info, "uptime_in_seconds"),
      now);
  if (!life) return std::nullopt;
  return std::chrono::floor<milliseconds>(now - life->began);
}

Finding uptimes(const std::vector<Facts>& servers, const QuorumTerms& terms) {
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
    return {"uptime", Level::info, "not checked: no server reports its uptime", "",
            false};
  }
  const auto span = for_people(terms.max_ttl);
  if (without.empty()) {
    return {"uptime", Level::ok,
            "all have been up for " + span + " (--max-ttl) or longer", ""};
  }
  const bool is_enough = servers.size() - without.size() >= needed(servers.size());
  return {"uptime", is_enough ? Level::warning : Level::error,
          redis::listed(without) + ": no vote until up for " + span + " (--max-ttl)",
          "wait, or set a shorter --max-ttl; no lease may be longer than it"};
}

Finding clocks(const std::vector<Facts>& servers) {
  const auto spread = redis::clock_spread(servers);
  if (!spread) {
    return {"clocks", Level::info, "not checked: no server reports its time", "", false};
  }
  if (*spread < close_enough) {
    return {"clocks", Level::ok, "all servers agree", ""};
  }
  return {"clocks", Level::warning,
          "the servers' clocks differ by " + for_people(*spread) +
              ": a server whose clock steps can lose leases",
          "synchronize the clocks of all servers by slewing (chrony, ntpd)"};
}

}  // namespace

std::vector<Finding> findings_of(const std::vector<Facts>& servers,
                                 const QuorumTerms& terms) {
  std::vector<Finding> findings{reachable(servers), distinct(servers),
                                uptimes(servers, terms), clocks(servers)};
  for (const auto& server : servers) {
    if (server.failure) continue;  // reported above
    for (auto& found : redis::findings_of(server)) {
      const bool is_covered = found.check == "persistence" && terms.max_ttl.count() > 0;
      if (is_covered && found.level == Level::warning) {
        found.level = Level::info;
        found.message = "none: a restarted server has no vote for --max-ttl";
        found.advice.clear();
      }
      redis::add_worst(findings, std::move(found), server.server);
    }
  }
  return findings;
}

}  // namespace dlock::redis_quorum
