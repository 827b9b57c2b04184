#include "util/journal.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace dlock {

bool names_stream(std::string_view variable, unsigned long long device,
                  unsigned long long inode) {
  return variable == std::to_string(device) + ":" + std::to_string(inode);
}

std::string line_start(Priority priority) {
  // Every process of a service inherits the variable, even if its standard error is
  // redirected; so the variable alone proves nothing.
  const char* variable = std::getenv("JOURNAL_STREAM");
  if (variable == nullptr) return "";
  struct stat stream {};
  if (::fstat(STDERR_FILENO, &stream) != 0 ||
      !names_stream(variable, stream.st_dev, stream.st_ino)) {
    return "";
  }
  return "<" + std::to_string(static_cast<int>(priority)) + ">";
}

}  // namespace dlock
