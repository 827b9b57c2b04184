// Configuration files.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/args/settings.hpp"
#include "fuzz.hpp"
#include "util/failure.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = [] {
    const int fd = ::memfd_create("config", MFD_CLOEXEC);
    ::fchmod(fd, 0600);  // everyone's to write by default
    return fd;
  }();
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(::ftruncate(file, 0) == 0, "the file can be emptied");
  require(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
          "the file can be written");
  try {
    check(config_from(path));
  } catch (const UsageError& error) {
    require(error.from_file(), "a bad value is the file's fault");
    fuzz::require_message(error);
  } catch (const Failure& failure) {
    require(failure.kind() == Failure::Kind::misconfigured,
            "a bad file is a bad setting");
    fuzz::require_message(failure);
  }
  return 0;
}
