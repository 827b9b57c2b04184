// Collects the facts about each server that matter to locks. It changes nothing there.
#include "store/redis/examine.hpp"

#include <algorithm>

#include "store/redis_quorum/health.hpp"
#include "store/redis_quorum/plan.hpp"
#include "store/round_trips.hpp"

namespace dlock::redis_quorum {

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto servers = co_await redis::facts_of_all(
      context, plan.servers, name_space, timeout, wakeup, redis::needed_in_quorum);
  Examination examination;
  examination.findings = findings_of(servers, plan.terms);
  for (const auto& server : servers) {
    if (const auto round_trip = median_of(server.round_trips)) {
      examination.round_trip =
          std::max(examination.round_trip.value_or(*round_trip), *round_trip);
    }
  }
  if (examination.round_trip) {
    examination.smallest_ttl = smallest_ttl_for(
        needed_budget(*examination.round_trip, servers.front().trips_to_renew));
  }
  co_return examination;
}

}  // namespace dlock::redis_quorum
