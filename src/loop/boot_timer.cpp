#include "loop/boot_timer.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "loop/wakeup.hpp"
#include "util/failure.hpp"

namespace dlock {

asio::execution_context::id BootTimer::id;

BootTimer::BootTimer(asio::execution_context& context)
    : asio::execution_context::service(context) {
  Fd timer(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) throw failure_to_watch(errno, "cannot create a timer");
  // Created here, so that the services it needs are older and are shut down later.
  timer_.emplace(static_cast<asio::io_context&>(context), std::move(timer),
                 [this] { expired(); });
}

void BootTimer::shutdown() { timer_.reset(); }

void BootTimer::add(Wakeup& sleeper) { sleepers_.push_back(&sleeper); }

void BootTimer::remove(Wakeup& sleeper) { std::erase(sleepers_, &sleeper); }

void BootTimer::wake_by(Clock::time_point moment) {
  if (moment < set_to_) set(moment);
}

void BootTimer::expired() {
  std::uint64_t expirations = 0;
  [[maybe_unused]] const auto size =
      ::read(timer_->fd(), &expirations, sizeof expirations);
  set_to_ = Clock::time_point::max();
  const auto now = Clock::now();
  auto next = Clock::time_point::max();
  for (auto* sleeper : sleepers_) next = std::min(next, sleeper->look_at_clock(now));
  wake_by(next);
}

void BootTimer::set(Clock::time_point moment) {
  set_to_ = moment;
  set_timer(timer_->fd(), moment);
}

}  // namespace dlock
