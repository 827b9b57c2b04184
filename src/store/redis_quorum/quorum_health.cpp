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
    const auto run_id = one.said("run_id");
    if (run_id.empty()) continue;
    const auto [other, is_new] = seen.emplace(run_id, one.server);
    if (is_new) continue;
    return say.error(other->second + " and " + one.server + " are the same server",
                     "name each server once in the store URL");
  }
  if (seen.empty()) return say.not_checked("no server reports its run_id");
  say.ok("all different");
}

void uptime(const QuorumFacts& facts, CheckReport& say) {
  if (facts.max_ttl.count() == 0) return say.ok("not needed: --max-ttl is 0");
  const auto now = Clock::now();
  std::vector<std::string> without;
  bool is_known = false;
  for (const auto& one : facts.servers) {
    const auto life = redis::life_from(one.fields, now);
    is_known = is_known || life;
    if (life && now - life->began < facts.max_ttl) without.push_back(one.server);
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
  judge_clocks(servers_of(facts.servers), say);
}

constexpr Check<QuorumFacts> checks[] = {
    {"servers", servers}, {"run-ids", run_ids}, {"uptime", uptime}, {"clocks", clocks}};

}  // namespace

Examination examination_of(std::vector<RedisFacts> servers, const QuorumTerms& terms) {
  auto examination = judged(checks, QuorumFacts{servers, terms.max_ttl});
  std::erase_if(servers, [](const auto& one) { return one.failure.has_value(); });
  for (auto& one : servers) one.is_replaced = terms.max_ttl.count() > 0;
  redis::add_examinations_of(servers, examination);
  return examination;
}

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  auto servers = co_await redis::facts_of_all(order, redis::targets_of(order.url),
                                              redis::needed_in_quorum);
  co_return examination_of(std::move(servers), order.url.terms);
}

}  // namespace dlock::redis_quorum
