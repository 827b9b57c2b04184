#include "store/etcd/day_lease.hpp"

#include <utility>

#include "lock/history.hpp"
#include "store/etcd/keys.hpp"

namespace dlock::etcd {

DayLease::DayLease(Calls& calls, std::string name_space)
    : calls_(calls), name_space_(std::move(name_space)) {}

std::int64_t DayLease::id() const { return lease_of_day(name_space_, wall_now()); }

asio::awaitable<bool> DayLease::set_up(Clock::time_point until, Wakeup& wakeup) {
  // A day longer, for runs that end at the end of the day.
  constexpr auto lasts = run_retention + std::chrono::hours(24);
  LeaseGrantRequest request;
  request.id = id();
  request.ttl = std::chrono::seconds(lasts).count();
  const auto granted = co_await calls_.lease_grant(request, until, wakeup);
  co_return !granted.exists;
}

}  // namespace dlock::etcd
