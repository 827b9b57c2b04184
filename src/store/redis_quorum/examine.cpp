// Collects the facts about each server that matter to locks. It changes nothing there.
#include "store/redis/examine.hpp"

#include "store/redis_quorum/health.hpp"
#include "store/redis_quorum/plan.hpp"

namespace dlock::redis_quorum {

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto servers = co_await redis::facts_of_all(
      context, plan.servers, name_space, timeout, wakeup, redis::needed_in_quorum);
  co_return redis::examination_of(findings_of(servers, plan.terms), servers);
}

}  // namespace dlock::redis_quorum
