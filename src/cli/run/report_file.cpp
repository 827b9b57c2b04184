#include "cli/run/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "util/clock.hpp"
#include "util/failure.hpp"
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

// How long to wait for the reader of a report. The limit ensures that a pipe that nobody
// reads does not block dlock.
constexpr milliseconds patience_for_reader{5000};

std::string cannot_write_to(const std::string& path) {
  return "cannot write the report to " + printable(path);
}

void require_own(const Way& way, const std::string& path) {
  const auto danger = danger_on(way.steps, Use::output, ::geteuid());
  if (!danger) return;
  throw Failure(Failure::Kind::misconfigured,
                cannot_write_to(path) + ": " + text_of(*danger));
}

// Opens or creates the file. O_NONBLOCK: a FIFO without a reader is an error instead of
// blocking, and a full one does not block the final write.
Fd open_report_file(const std::string& path) {
  constexpr int flags = O_WRONLY | O_NOCTTY | O_NONBLOCK;
  constexpr int most_tries = 3;
  Fd file;
  for (int tries = 0; !file && tries < most_tries; ++tries) {
    auto way = way_to(path);
    require_own(way, path);
    const bool is_there = has_end(way);
    file = open_at(way, is_there ? flags : flags | O_CREAT | O_EXCL, 0666);
    // Unless another process has created or removed it since it was looked up.
    if (!file && errno != (is_there ? ENOENT : EEXIST)) break;
    if (!file || !is_there) continue;
    see_end(way, file);  // which may have been replaced since
    require_own(way, path);
  }
  if (!file) throw failure_of_named(errno, cannot_write_to(path));
  return file;
}

}  // namespace

ReportFile::ReportFile(const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    is_standard_error_ = true;
    return;
  }
  file_ = open_report_file(path);
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
