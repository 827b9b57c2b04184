#include "net/budget.hpp"

#include <algorithm>
#include <utility>

#include "util/text.hpp"

namespace dlock::net {

Budget::Budget(Clock::time_point until, Wakeup& wakeup, std::string server)
    : until_(until), wakeup_(wakeup), server_(std::move(server)) {}

asio::awaitable<bool> Budget::wait(std::function<bool()> is_true,
                                   Clock::time_point moment) {
  const auto end = std::min(moment, until_);
  while (!is_true()) {
    if (wakeup_.gives_up()) throw given_up();
    if (Clock::now() >= end) co_return false;
    co_await wakeup_.wait_until(end);
    // The event has been recorded where it belongs, and its reader checks there before it
    // sleeps. But the reader must not miss the notification.
    if (!is_true() && Clock::now() < end) woken_for_others_ = true;
  }
  co_return true;
}

void Budget::check() const {
  if (wakeup_.gives_up()) throw given_up();
  if (is_over()) throw timeout(server_);
}

Timeout Budget::timeout(const std::string& who) const {
  // Rounded, because the budget was computed a moment before.
  const auto budget = std::chrono::round<std::chrono::duration<long long, std::centi>>(
      std::max(until_ - began_, Clock::duration::zero()));
  return Timeout(who + " did not reply within " + for_people(budget));
}

void Budget::hand_on() {
  if (std::exchange(woken_for_others_, false)) wakeup_.notify();
}

Failure Budget::given_up() const {
  return Failure(Failure::Kind::interrupted, server_ + ": interrupted");
}

}  // namespace dlock::net
