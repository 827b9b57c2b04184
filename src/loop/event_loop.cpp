#include "loop/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>

#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock {

namespace {

void require(bool succeeds, const char* call) {
  if (!succeeds) throw failure_of_call(errno, "cannot wait for events", call);
}

// Makes each call once. Returns how many threads may use the loop: one.
int check_calls() {
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  require(epoll.get() >= 0, "epoll_create1");
  const Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  require(timer.get() >= 0, "timerfd_create");
  const itimerspec never{};
  require(::timerfd_settime(timer.get(), 0, &never, nullptr) == 0, "timerfd_settime");
  epoll_event event{};
  require(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, timer.get(), &event) == 0, "epoll_ctl");
  const int ready = ::epoll_wait(epoll.get(), &event, 1, 0);
  require(ready >= 0 || errno == EINTR, "epoll_wait");
  return 1;
}

}  // namespace

EventLoop::EventLoop() : io_context(check_calls()) {}

}  // namespace dlock
