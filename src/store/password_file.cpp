#include "store/password_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Far more than any password or token.
constexpr std::size_t longest_password = 64u << 10;

Failure unusable(const std::string& file, Failure::Kind kind, const std::string& why) {
  return Failure(kind, "password file " + printable(file, 200) + ": " + why);
}

}  // namespace

std::string password_in(const std::string& file) {
  // O_NONBLOCK: do not wait for the writer of a pipe. The type is checked afterwards.
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) throw failure_of(errno, "password file " + printable(file, 200));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw unusable(file, Failure::Kind::misconfigured, "not a regular file");
  }
  // The group may be the one that a daemon runs as.
  if ((status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    throw unusable(file, Failure::Kind::rejected,
                   "others can read or write it (chmod o-rw)");
  }
  std::string text(longest_password + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failure_of(errno, "password file " + printable(file, 200));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > longest_password) {
    throw unusable(file, Failure::Kind::misconfigured, "larger than 64 KiB");
  }
  text.resize(std::min(size, text.find('\n')));
  if (text.empty()) {
    throw unusable(file, Failure::Kind::misconfigured, "its first line is empty");
  }
  return text;
}

}  // namespace dlock
