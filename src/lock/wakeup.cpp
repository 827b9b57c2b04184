#include "lock/wakeup.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "lock/errors.hpp"

namespace dlock {

using boost::system::error_code;

Wakeup::Wakeup(asio::io_context& context) : context_(context), sleep_(context) {}

void Wakeup::notify() {
  notified_ = true;
  sleep_.cancel();
}

void Wakeup::give_up(bool wanted) {
  gives_up_ = wanted;
  if (wanted) notify();
}

asio::awaitable<void> Wakeup::wait_until(Clock::time_point moment) {
  if (!notified_) {
    arm(moment);
    sleep_.expires_at(asio::steady_timer::time_point::max());
    error_code ignored;
    co_await sleep_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  notified_ = false;
}

void Wakeup::prepare() {
  if (timer_) return;
  Fd timer(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) throw failure_of(errno, "cannot make a timer");
  timer_.emplace(context_, std::move(timer), [this] {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const auto size =
        ::read(timer_->fd(), &expirations, sizeof expirations);
    armed_ = Clock::time_point::max();
    notify();
  });
}

void Wakeup::arm(Clock::time_point moment) {
  if (moment == armed_) return;
  prepare();
  armed_ = moment;
  itimerspec setting{};
  if (moment != Clock::time_point::max()) {
    // Zero would disarm it; a moment in the past fires at once.
    const auto at = std::max(moment.time_since_epoch(), nanoseconds(1));
    setting.it_value.tv_sec = at.count() / 1'000'000'000;
    setting.it_value.tv_nsec = at.count() % 1'000'000'000;
  }
  ::timerfd_settime(timer_->fd(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

}  // namespace dlock
