#include "store/local/boot_id.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lock/errors.hpp"
#include "util/fd.hpp"

namespace dlock::local {

std::string boot_id() {
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file && (errno == EMFILE || errno == ENFILE))
    throw failure_of(errno, "cannot read the boot id");
  char text[64];
  const auto size = file ? ::read(file.get(), text, sizeof text) : -1;
  if (size < 36) {
    throw Failure(Failure::Kind::misconfigured,
                  "cannot read the boot id from /proc: the embedded store needs it");
  }
  return std::string(text, 36);
}

}  // namespace dlock::local
