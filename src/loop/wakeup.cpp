#include "loop/wakeup.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdint>

#include "util/failure.hpp"

namespace dlock {

using boost::asio::posix::stream_descriptor;

struct Readable::Watch {
  Watch(boost::asio::io_context& context, Fd fd, std::function<void()> callback,
        PauseAfterCall pause_after_call)
      : descriptor(context),
        happened(std::move(callback)),
        pause(std::move(pause_after_call)) {
    boost::system::error_code error;
    descriptor.assign(fd.get(), error);
    // Asio would do this at the first wait, and report a failure only then.
    if (!error) descriptor.native_non_blocking(true, error);
    if (error)
      throw failure_of_call(error.value(), "cannot watch a descriptor",
                            "epoll_ctl or ioctl");
    fd.release();
  }

  stream_descriptor descriptor;
  std::function<void()> happened;
  PauseAfterCall pause;
  std::optional<boost::asio::steady_timer> pausing;
};

Readable::Readable(boost::asio::io_context& context, Fd fd,
                   std::function<void()> happened, PauseAfterCall pause)
    : watch_(std::make_shared<Watch>(context, std::move(fd), std::move(happened),
                                     std::move(pause))) {
  listen(watch_);
}

// A completed wait may be queued behind the handler that destroys this object. It still
// shares the watch, and finds no callback.
Readable::~Readable() {
  watch_->happened = nullptr;
  watch_->pausing.reset();
  watch_->descriptor.close();
}

int Readable::fd() const { return watch_->descriptor.native_handle(); }

void Readable::listen(const std::shared_ptr<Watch>& watch) {
  watch->descriptor.async_wait(stream_descriptor::wait_read,
                               [watch](boost::system::error_code error) {
                                 if (error || !watch->happened) return;
                                 // A copy: the callback may destroy the original.
                                 const auto happened = watch->happened;
                                 happened();
                                 if (watch->happened) listen_again(watch);
                               });
}

void Readable::listen_again(const std::shared_ptr<Watch>& watch) {
  const auto span = watch->pause ? watch->pause() : std::chrono::milliseconds(0);
  if (span.count() == 0) return listen(watch);
  watch->pausing.emplace(watch->descriptor.get_executor(), span);
  watch->pausing->async_wait([watch](boost::system::error_code error) {
    if (!error && watch->happened) listen(watch);
  });
}

using boost::system::error_code;

Wakeup::Wakeup(asio::io_context& context) : context_(context), sleep_(context) {}

Wakeup::~Wakeup() {
  if (timer_ != nullptr) timer_->remove(*this);
}

void Wakeup::notify() {
  notified_ = true;
  sleep_.cancel();
}

void Wakeup::give_up(bool wanted) {
  gives_up_ = wanted;
  if (wanted) notify();
}

asio::awaitable<void> Wakeup::wait_until(Clock::time_point moment) {
  // Without a timer on boot time, a suspend delays the return by up to this.
  constexpr nanoseconds pause = milliseconds(100);
  sleep_.expires_at(asio::steady_timer::time_point::max());
  try {
    if (!notified_) arm(moment);
  } catch (const Failure&) {
    sleep_.expires_after(std::clamp(moment - Clock::now(), nanoseconds(0), pause));
  }
  co_await sleep();
}

asio::awaitable<void> Wakeup::sleep_until(Clock::time_point moment) {
  while (!gives_up_ && Clock::now() < moment) co_await wait_until(moment);
}

asio::awaitable<void> Wakeup::wait_for(milliseconds span) {
  sleep_.expires_after(span);
  co_await sleep();
}

asio::awaitable<void> Wakeup::sleep() {
  if (!notified_) {
    error_code ignored;
    co_await sleep_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  notified_ = false;
}

void Wakeup::prepare() {
  if (timer_ != nullptr) return;
  auto& timer = asio::use_service<BootTimer>(context_);
  timer.add(*this);
  timer_ = &timer;
}

void Wakeup::arm(Clock::time_point moment) {
  if (moment == armed_) return;
  prepare();
  armed_ = moment;
  timer_->wake_by(moment);
}

Clock::time_point Wakeup::look_at_clock(Clock::time_point now) {
  if (now >= armed_) {
    armed_ = Clock::time_point::max();
    notify();
  }
  return armed_;
}

asio::execution_context::id BootTimer::id;

BootTimer::BootTimer(asio::execution_context& context)
    : asio::execution_context::service(context) {
  Fd timer(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) throw failure_of_call(errno, "cannot create a timer", "timerfd_create");
  // Created here, so that the services it needs are older and are shut down later.
  timer_.emplace(static_cast<asio::io_context&>(context), std::move(timer),
                 [this] { expired(); });
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

milliseconds growing_pause(int failures, milliseconds longest, milliseconds first) {
  constexpr int most_doublings = 20;
  return std::min(first * (1 << std::min(failures - 1, most_doublings)), longest);
}

milliseconds Restraint::pause(Clock::time_point now) {
  constexpr milliseconds shortest{20};
  constexpr std::int64_t most_doublings = 4;
  used_until_ = later(std::max(used_until_, now), interval);
  const auto excess = used_until_ - now - allowance_;
  if (excess <= nanoseconds(0)) return milliseconds(0);
  const auto doublings = std::min<std::int64_t>(excess / interval, most_doublings);
  return std::min<milliseconds>(shortest * (1 << doublings), interval);
}

}  // namespace dlock
