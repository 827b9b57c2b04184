#include "cli/run/report_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.hpp"
#include "util/path_trust.hpp"
#include "util/slow_writer.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

bool is_same_file(const struct stat& status, int fd) {
  struct stat other {};
  return ::fstat(fd, &other) == 0 && other.st_dev == status.st_dev &&
         other.st_ino == status.st_ino;
}

// How long to wait for the reader of a report. The limit ensures that a pipe without a
// reader does not block dlock.
constexpr milliseconds patience_for_reader{5000};

}  // namespace

ReportFile::ReportFile(const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    is_standard_error_ = true;
    return;
  }
  file_ = open_to_write(path, "cannot write the report to " + printable(path));
}

bool ReportFile::write(const std::string& line) {
  if (is_standard_error_) return write_within(STDERR_FILENO, line, patience_for_reader);
  if (!file_) return true;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    // If the file is /dev/stdout, it already has the command's output.
    if (is_same_file(status, STDOUT_FILENO) || is_same_file(status, STDERR_FILENO)) {
      ::lseek(file_.get(), 0, SEEK_END);
    } else if (::ftruncate(file_.get(), 0) != 0) {
      return false;  // only now, so that the old report stays until there is a new one
    }
  }
  return write_within(file_.get(), line, patience_for_reader);
}

}  // namespace dlock
