#include "util/bounded_write.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

#include "util/fd.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Opens the same pipe non-blocking; O_NONBLOCK on the descriptor itself would affect the
// command, too. Not possible for a pipe that we may not open, such as another user's.
Fd impatient(int pipe) {
  char path[32] = "/proc/self/fd/";
  std::to_chars(path + std::strlen(path), std::end(path) - 1, pipe);
  return Fd(::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

// Waits until the descriptor is writable. Returns false with EAGAIN if it does not become
// writable in time.
bool can_be_written(int fd, steady_clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - steady_clock::now()).count();
    pollfd wanted{fd, POLLOUT, 0};
    const int ready = ::poll(&wanted, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0) break;
  }
  errno = EAGAIN;
  return false;
}

}  // namespace

bool write_within(int fd, std::string_view text, milliseconds patience) {
  struct stat status {};
  const bool is_known = ::fstat(fd, &status) == 0;
  const bool is_socket = is_known && S_ISSOCK(status.st_mode);
  const bool is_pipe = is_known && S_ISFIFO(status.st_mode);
  if (!is_socket && !is_pipe) return write_all(fd, text);
  const auto until = steady_clock::now() + patience;
  const auto pipe = is_pipe ? impatient(fd) : Fd();
  while (!text.empty()) {
    if (!can_be_written(fd, until)) return false;
    // A writable pipe has room for this much, unless another process fills it first.
    const auto part = text.substr(0, PIPE_BUF);
    const auto size = is_socket
                          ? ::send(fd, part.data(), part.size(), MSG_DONTWAIT)
                          : ::write(pipe ? pipe.get() : fd, part.data(), part.size());
    if (size < 0 && errno == EAGAIN && steady_clock::now() < until) continue;
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace dlock
