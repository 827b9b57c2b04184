#include "store/local/namespaces.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.hpp"
#include "util/process.hpp"

namespace dlock::local {
namespace {

// Reading /proc/self/ns takes longer than a change of a lock, because the kernel creates
// the entries on demand. Since Linux 6.11 a pidfd provides the same faster.
std::uint64_t number_of(const Fd& process, unsigned long request, const char* name) {
  struct stat status {};
  const Fd name_space(process ? ::ioctl(process.get(), request, 0) : -1);
  if (name_space && ::fstat(name_space.get(), &status) == 0) return status.st_ino;
  return ::stat(name, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

const Namespaces& own_namespaces() {
  // PIDFD_GET_PID_NAMESPACE and PIDFD_GET_TIME_NAMESPACE of linux/pidfd.h.
  constexpr unsigned long get_pids = _IO(0xFF, 5);
  constexpr unsigned long get_time = _IO(0xFF, 7);
  static const Namespaces own = [] {
    const Fd process(open_pidfd(::getpid()));
    return Namespaces{number_of(process, get_pids, "/proc/self/ns/pid"),
                      number_of(process, get_time, "/proc/self/ns/time")};
  }();
  return own;
}

}  // namespace dlock::local
