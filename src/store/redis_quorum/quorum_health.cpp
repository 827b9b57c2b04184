#include "store/redis_quorum/quorum_health.hpp"

#include <map>

#include "store/redis/node.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

using redis::RedisFacts;

struct QuorumFacts {
  const std::vector<RedisFacts>& servers;
  milliseconds max_ttl;
};

void servers(const QuorumFacts& facts, CheckReport& say) {
  judge_reachable(servers_of(facts.servers), needed(facts.servers.size()),
                  "bind, protected-mode", say);
}

void run_ids(const QuorumFacts& facts, CheckReport& say) {
  std::map<std::string, std::string> seen;
  for (const auto& one : facts.servers) {
    const auto run_id = redis::field(one.info, "run_id");
    if (run_id.empty()) continue;
    const auto [other, is_new] = seen.emplace(run_id, one.server);
    if (is_new) continue;
    return say.error(other->second + " and " + one.server + " are the same server",
                     "name each server once in the store URL");
  }
  if (seen.empty()) return say.not_checked("no server reports its run_id");
  say.ok("all different");
}

// How long a server has been up at least; nothing if it does not say.
std::optional<milliseconds> uptime_of(const RedisFacts& facts) {
  const auto field = [&](const char* name) {
    return joined(name, ":", redis::field(facts.info, name), "\r\n");
  };
  const auto now = Clock::now();
  const auto life = redis::life_from(field("run_id") + field("uptime_in_seconds"), now);
  if (!life) return std::nullopt;
  return std::chrono::floor<milliseconds>(now - life->began);
}

void uptime(const QuorumFacts& facts, CheckReport& say) {
  if (facts.max_ttl.count() == 0) return say.ok("not needed: --max-ttl is 0");
  std::vector<std::string> without;
  bool is_known = false;
  for (const auto& one : facts.servers) {
    const auto up = uptime_of(one);
    is_known = is_known || up;
    if (up && *up < facts.max_ttl) without.push_back(one.server);
  }
  if (!is_known) return say.not_checked("no server reports its uptime");
  const auto span = for_people(facts.max_ttl) + " (--max-ttl)";
  if (without.empty()) return say.ok("all have been up for ", span, " or longer");
  const auto all = facts.servers.size();
  const bool is_enough = all - without.size() >= needed(all);
  say.level(is_enough ? Finding::Level::warning : Finding::Level::error,
            listed(without) + ": no vote until up for " + span,
            "wait, or set a shorter --max-ttl; no lease may be longer than it");
}

// Each server times leases by its own clock; the clocks only need to agree on the order
// of the queue.
void clocks(const QuorumFacts& facts, CheckReport& say) {
  judge_clocks("servers", servers_of(facts.servers),
               ": a server whose clock steps can lose leases", say);
}

constexpr Check<QuorumFacts> checks[] = {
    {"servers", servers}, {"run-ids", run_ids}, {"uptime", uptime}, {"clocks", clocks}};

}  // namespace

std::vector<Finding> findings_of(std::vector<RedisFacts> servers,
                                 const QuorumTerms& terms) {
  auto findings = judged(checks, QuorumFacts{servers, terms.max_ttl});
  std::erase_if(servers, [](const auto& one) { return one.failure.has_value(); });
  for (auto& one : servers) one.is_replaced = terms.max_ttl.count() > 0;
  redis::add_findings_of(servers, findings);
  return findings;
}

asio::awaitable<Examination> examine(const ExaminationOrder& order,
                                     asio::io_context& context, Wakeup& wakeup) {
  const auto servers = co_await redis::facts_of_all(
      context, redis::targets_of(order.url), order, wakeup, redis::needed_in_quorum);
  co_return examination_of(findings_of(servers, order.url.terms), servers_of(servers));
}

}  // namespace dlock::redis_quorum
