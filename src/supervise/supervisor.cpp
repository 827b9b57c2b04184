#include "supervise/supervisor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "util/fd.hpp"

namespace dlock {

std::string unkillable(int count) {
  return "cannot end " + std::to_string(count) +
         " of the command's processes (no permission); keeping the lock until they are "
         "gone";
}

std::string not_gone() {
  return "the command's processes were killed but are not gone, or keep starting others; "
         "keeping the lock until they are gone";
}

bool has_terminal() {
  return static_cast<bool>(Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)));
}

}  // namespace dlock
