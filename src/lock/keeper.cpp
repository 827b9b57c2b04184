#include "lock/keeper.hpp"

#include <utility>

#include "util/failure.hpp"
#include "util/random.hpp"

namespace dlock {

std::string loss_name(Loss loss) {
  switch (loss) {
    case Loss::taken_over: return "taken over";
    case Loss::gone: return "gone";
    case Loss::broken: return "broken";
    case Loss::unconfirmed: break;
  }
  return "unconfirmed";
}

Clock::time_point next_renewal(const LeaseTiming& timing, Clock::time_point sent_at,
                               int failures, Clock::time_point now) {
  if (failures == 0) {
    const auto tenth = static_cast<std::uint64_t>(timing.renew_every().count()) / 10;
    const milliseconds earlier(random_up_to(tenth));
    return later(sent_at, timing.renew_every() - earlier);
  }
  constexpr int most_doublings = 20;
  const auto pause =
      LeaseTiming::first_retry * (1 << std::min(failures - 1, most_doublings));
  return later(now, std::min(pause, timing.longest_retry()));
}

asio::awaitable<void> keep_lease(std::function<asio::awaitable<Renewal>()> renew,
                                 LeaseTiming timing, Clock::time_point granted_at,
                                 LeaseWatcher& watcher, Wakeup& wakeup,
                                 KeeperOrders& orders) {
  auto confirmed_at = granted_at;
  int failures = 0;
  bool told_broken = false;
  for (;;) {
    const auto next = next_renewal(timing, confirmed_at, failures, Clock::now());
    while (!orders.stop && !orders.renew_now && Clock::now() < next) {
      co_await wakeup.wait_until(next);
    }
    if (orders.stop) co_return;
    orders.renew_now = false;

    const auto sent_at = Clock::now();
    try {
      const auto renewal = co_await renew();
      if (orders.stop) co_return;  // the watcher may be gone
      switch (renewal) {
        case Renewal::reclaimed: watcher.reclaimed(); [[fallthrough]];
        case Renewal::broken:
        case Renewal::confirmed:
          confirmed_at = sent_at;
          failures = 0;
          watcher.extend(timing.deadline(sent_at));
          if (renewal == Renewal::broken && !std::exchange(told_broken, true)) {
            watcher.forfeit(Loss::broken);
          }
          break;
        case Renewal::taken_over: watcher.forfeit(Loss::taken_over); co_return;
        case Renewal::gone: watcher.forfeit(Loss::gone); co_return;
      }
    } catch (const Failure&) {
      ++failures;  // whatever it was: not renewed, and the deadline stays
    }
    if (failures > 0 && !orders.stop) watcher.renewal_failed(Clock::now());
  }
}

}  // namespace dlock
