#include "util/bounded_write.hpp"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "util/fd.hpp"
#include "util/reopen.hpp"

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

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
  const bool is_terminal = !is_socket && !is_pipe && ::isatty(fd) != 0;
  if (!is_socket && !is_pipe && !is_terminal) return write_all(fd, text);
  const auto own = is_socket ? Fd() : reopen_to_write(fd);
  const auto until = steady_clock::now() + patience;
  while (!text.empty()) {
    if (!can_be_written(fd, until)) return false;
    // A writable pipe has room for this much, unless another process fills it first. A
    // terminal may have less.
    const auto part = text.substr(0, PIPE_BUF);
    const auto size = is_socket ? ::send(fd, part.data(), part.size(), MSG_DONTWAIT)
                                : ::write(own ? own.get() : fd, part.data(), part.size());
    if (size < 0 && errno == EAGAIN && steady_clock::now() < until) continue;
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace dlock
