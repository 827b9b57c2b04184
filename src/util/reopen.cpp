#include "util/reopen.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <charconv>
#include <cstring>
#include <iterator>

namespace dlock {

Fd reopen_to_write(int fd) {
  // To open the master of a terminal creates another terminal.
  int number = 0;
  if (::ioctl(fd, TIOCGPTN, &number) == 0) return Fd();
  char path[32] = "/proc/self/fd/";
  std::to_chars(path + std::strlen(path), std::end(path) - 1, fd);
  return Fd(::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace dlock
