#include "store/local/epoch.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "util/failure.hpp"
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

std::string boot_id() {
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file && (errno == EMFILE || errno == ENFILE)) {
    throw failure_of(errno, "cannot read the boot id");
  }
  char text[64];
  const auto size = file ? ::read(file.get(), text, sizeof text) : -1;
  constexpr std::string_view digits = "0123456789abcdef-";
  if (size < 36 ||
      std::string_view(text, 36).find_first_not_of(digits) != std::string_view::npos) {
    throw Failure(Failure::Kind::misconfigured,
                  "cannot read the boot id from /proc: the embedded store needs it");
  }
  return std::string(text, 36);
}

const std::string& own_epoch() {
  // The kernel's number for the time namespace that a machine starts with
  // (PROC_TIME_INIT_INO).
  constexpr std::uint64_t first_time_namespace = 0xEFFFFFFA;
  // A process sees one boot only, and dlock changes no namespaces.
  static const std::string epoch = [] {
    const auto time = own_namespaces().time;
    const bool is_usual = time == 0 || time == first_time_namespace;
    return boot_id() + (is_usual ? "" : "-time-" + std::to_string(time));
  }();
  return epoch;
}

}  // namespace dlock::local
