#include "util/slow_writer.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

namespace dlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Opens the pipe or the terminal of a descriptor once more, non-blocking and for writing.
Fd reopen_to_write(int fd) {
  // To open the master of a terminal creates another terminal.
  int number = 0;
  if (::ioctl(fd, TIOCGPTN, &number) == 0) return Fd();
  char path[32] = "/proc/self/fd/";
  std::to_chars(path + std::strlen(path), std::end(path) - 1, fd);
  return Fd(::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

SlowWriter::SlowWriter(int fd) : fd_(fd), kind_(kind_of(fd)) {
  if (kind_ == Kind::pipe || kind_ == Kind::terminal) own_ = reopen_to_write(fd);
}

SlowWriter::Kind SlowWriter::kind_of(int fd) {
  struct stat status {};
  const bool is_known = ::fstat(fd, &status) == 0;
  if (is_known && S_ISSOCK(status.st_mode)) return Kind::socket;
  if (is_known && S_ISFIFO(status.st_mode)) return Kind::pipe;
  return ::isatty(fd) != 0 ? Kind::terminal : Kind::other;
}

ssize_t SlowWriter::write_some(std::string_view bytes, milliseconds patience) {
  ssize_t size = 0;
  if (can_block()) {
    pollfd wanted{fd(), POLLOUT, 0};
    const auto most = std::max(patience, milliseconds(0)).count();
    const int ready = ::poll(&wanted, 1, static_cast<int>(most));
    if (ready == 0) return 0;
    if (ready < 0) return errno == EINTR ? 0 : -1;
    if ((wanted.revents & POLLOUT) == 0) {
      errno = EPIPE;  // full, and the reader has closed it
      return -1;
    }
    // A writable pipe has room for this much, unless another process fills it first. A
    // terminal may have less.
    bytes = bytes.substr(0, PIPE_BUF);
  }
  size = kind_ == Kind::socket ? ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT)
                               : ::write(fd(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return size == 0 && !bytes.empty() ? -1 : size;
}

bool write_within(int fd, std::string_view text, milliseconds patience) {
  SlowWriter writer(fd);
  if (!writer.can_block()) return write_all(fd, text);
  const auto until = steady_clock::now() + patience;
  while (!text.empty()) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    const auto size = writer.write_some(text, left);
    if (size < 0) return false;
    if (size == 0 && steady_clock::now() >= until) {
      errno = EAGAIN;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace dlock
