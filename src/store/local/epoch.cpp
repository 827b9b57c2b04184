#include "store/local/epoch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>

#include "store/local/namespaces.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock::local {
namespace {

constexpr const char* prefix = "state-";

}  // namespace

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

std::string state_folder_name() { return prefix + own_epoch(); }

bool is_state_folder_name(const std::string& name) { return name.starts_with(prefix); }

}  // namespace dlock::local
