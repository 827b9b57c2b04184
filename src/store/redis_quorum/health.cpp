#include "store/redis_quorum/health.hpp"

#include <algorithm>
#include <map>

#include "store/redis/life.hpp"
#include "store/redis_quorum/majority.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

using Level = Finding::Level;
using redis::Facts;
using std::chrono::microseconds;

// Leases are counted by each server; what the clocks agree on is the order in line.
constexpr microseconds close_enough{1'000'000};

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::string field(const Facts& facts, std::string_view name) {
  const auto found = facts.info.find(name);
  return found == facts.info.end() ? "" : found->second;
}

Finding reachable(const std::vector<Facts>& servers) {
  const auto there = static_cast<std::size_t>(
      std::count_if(servers.begin(), servers.end(),
                    [](const Facts& one) { return !one.failure.has_value(); }));
  auto message = std::to_string(there) + " of " + std::to_string(servers.size()) +
                 " answer, and " + std::to_string(needed(servers.size())) + " have to";
  if (there == servers.size()) return {"servers", Level::ok, message, ""};
  for (const auto& one : servers) {
    if (one.failure) message += "; " + std::string(one.failure->what());
  }
  const bool is_enough = there >= needed(servers.size());
  return {"servers", is_enough ? Level::warning : Level::error, message,
          "see that they run, that the URL of the store names them right, and that they "
          "let this machine in"};
}

Finding distinct(const std::vector<Facts>& servers) {
  std::map<std::string, std::string> seen;
  for (const auto& one : servers) {
    const auto run_id = field(one, "run_id");
    if (run_id.empty()) continue;
    const auto [other, is_new] = seen.emplace(run_id, one.server);
    if (is_new) continue;
    return {"run-ids", Level::error,
            other->second + " and " + one.server + " are one and the same server",
            "name each server once in the URL of the store"};
  }
  if (seen.empty()) {
    return {"run-ids", Level::info, "not checked: no server tells its run_id", "", false};
  }
  return {"run-ids", Level::ok, "all different", ""};
}

// How long a server is up for sure; nothing if it does not say.
std::optional<milliseconds> uptime_of(const Facts& facts) {
  const auto now = Clock::now();
  const auto life =
      redis::life_from("run_id:" + field(facts, "run_id") +
                           "\r\nuptime_in_seconds:" + field(facts, "uptime_in_seconds"),
                       now);
  if (!life) return std::nullopt;
  return std::chrono::floor<milliseconds>(now - life->began);
}

Finding uptimes(const std::vector<Facts>& servers, const Terms& terms) {
  if (terms.max_ttl.count() == 0) {
    return {"uptime", Level::ok, "of no account: --max-ttl is 0", ""};
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
    return {"uptime", Level::info, "not checked: no server says how long it is up", "",
            false};
  }
  const auto span = for_people(terms.max_ttl);
  if (without.empty()) {
    return {"uptime", Level::ok, "all are up for " + span + " (--max-ttl) or longer", ""};
  }
  const bool is_enough = servers.size() - without.size() >= needed(servers.size());
  return {"uptime", is_enough ? Level::warning : Level::error,
          joined(without) + " has no vote before it is up for " + span + " (--max-ttl)",
          "wait; a shorter --max-ttl needs leases that are no longer"};
}

Finding clocks(const std::vector<Facts>& servers) {
  std::optional<microseconds> first;
  std::optional<microseconds> last;
  for (const auto& one : servers) {
    if (!one.clock_ahead) continue;
    first = std::min(first.value_or(*one.clock_ahead), *one.clock_ahead);
    last = std::max(last.value_or(*one.clock_ahead), *one.clock_ahead);
  }
  if (!first) {
    return {"clocks", Level::info, "not checked: no server tells its time", "", false};
  }
  if (*last - *first < close_enough) {
    return {"clocks", Level::ok, "of all servers alike", ""};
  }
  return {"clocks", Level::warning,
          "those of the servers differ by " + for_people(*last - *first) +
              ": one that steps forgets leases",
          "keep the clocks of all servers alike, and have them slewed (chrony, ntpd)"};
}

// The gravest finding of a check, with the server that it is about.
void add(std::vector<Finding>& findings, Finding found, const std::string& server) {
  const auto same =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& other) { return other.check == found.check; });
  if (found.level > Level::info) found.message = server + ": " + found.message;
  if (same == findings.end()) {
    findings.push_back(std::move(found));
  } else if (found.level > same->level) {
    *same = std::move(found);
  }
}

}  // namespace

std::vector<Finding> findings_of(const std::vector<Facts>& servers, const Terms& terms) {
  std::vector<Finding> findings{reachable(servers), distinct(servers),
                                uptimes(servers, terms), clocks(servers)};
  for (const auto& server : servers) {
    if (server.failure) continue;  // told above
    for (auto& found : redis::findings_of(server)) {
      const bool is_covered = found.check == "persistence" && terms.max_ttl.count() > 0;
      if (is_covered && found.level == Level::warning) {
        found.level = Level::info;
        found.message = "none: a server that was restarted has no vote for --max-ttl";
        found.advice.clear();
      }
      add(findings, std::move(found), server.server);
    }
  }
  return findings;
}

}  // namespace dlock::redis_quorum
