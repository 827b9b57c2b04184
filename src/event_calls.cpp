// Calls of the event loop that a filter (seccomp) may refuse, and whose failure Asio does
// not look at: without this it would wait for ever, or spin. The linker puts these
// functions in place of those of the C library (CMakeLists.txt).
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include <cerrno>

#include "util/failure.hpp"

namespace {

// What was refused. The two calls whose callers expect no exception leave it to the next
// wait.
const char* refused_call = nullptr;
int refusal = 0;

void note_refusal(const char* call) {
  if (errno != ENOSYS && errno != EPERM) return;
  refused_call = call;
  refusal = errno;
}

// Whether epoll knows all of this kind: not files, which Asio and `cache` try as well,
// and not devices, of which /dev/null is one. The descriptor of a timer has no type.
bool can_be_watched(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  const auto type = status.st_mode & S_IFMT;
  return type == S_IFSOCK || type == S_IFIFO || type == 0;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): ld names
// them.
extern "C" {

int __real_epoll_ctl(int, int, int, epoll_event*);
int __real_epoll_wait(int, epoll_event*, int, int);
int __real_timerfd_create(int, int);

int __wrap_epoll_ctl(int epoll, int action, int fd, epoll_event* event) {
  const int result = __real_epoll_ctl(epoll, action, fd, event);
  if (result != 0) {
    const int error = errno;
    if (error != EPERM || can_be_watched(fd)) {
      errno = error;
      note_refusal("epoll_ctl");
    }
    errno = error;
  }
  return result;
}

// Checked once, before a command is started: afterwards nothing could be done about it.
int __wrap_timerfd_create(int clock, int flags) {
  static bool is_checked = false;
  const int timer = __real_timerfd_create(clock, flags);
  if (timer < 0 || is_checked) return timer;
  is_checked = true;
  const itimerspec never{};
  if (::timerfd_settime(timer, 0, &never, nullptr) != 0) note_refusal("timerfd_settime");
  return timer;
}

int __wrap_epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  const int result =
      refused_call == nullptr ? __real_epoll_wait(epoll, events, most, timeout) : -1;
  if (result < 0 && refused_call == nullptr) note_refusal("epoll_wait");
  if (refused_call != nullptr) {
    throw dlock::failure_of_call(refusal, "cannot wait for events", refused_call);
  }
  return result;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
