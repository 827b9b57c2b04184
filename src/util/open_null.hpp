// A descriptor that leads nowhere.
#pragma once

#include <fcntl.h>

namespace dlock {

// Opens /dev/null, close-on-exec; where there is none, as in a bare chroot, what can
// neither be read nor written.
inline int open_null() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  return null >= 0 ? null : ::open("/", O_PATH | O_CLOEXEC);
}

}  // namespace dlock
