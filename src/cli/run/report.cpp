#include "cli/run/report.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "supervise/signals.hpp"
#include "util/bounded_write.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/path_trust.hpp"
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
Fd opened(const std::string& path) {
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

std::string name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ran: return "ran";
    case Outcome::busy: return "busy";
    case Outcome::superseded: return "superseded";
    case Outcome::deduplicated: return "deduplicated";
    case Outcome::lost: return "lost";
    case Outcome::unavailable: return "unavailable";
    case Outcome::timeout: return "timeout";
    case Outcome::not_started: return "not-started";
    case Outcome::interrupted: return "interrupted";
    case Outcome::error: break;
  }
  return "error";
}

CommandEnd reported_end(const RunResult& result) {
  const bool has_another =
      result.outcome == Outcome::lost || result.outcome == Outcome::timeout;
  if (has_another && result.ran) return {result.command_exit_code, result.command_signal};
  return {result.exit_code, result.signal};
}

std::string report_line(const RunIdentity& run, const RunResult& result) {
  const auto& grant = result.grant;
  const auto [exit_code, signal] = reported_end(result);
  const bool has_run = result.started && result.ran;
  return to_line(Json{
             {"name", run.lock},
             {"outcome", name_of(result.outcome)},
             {"reason", result.reason ? Json(loss_name(*result.reason)) : Json(nullptr)},
             {"protected", or_null(result.is_protected)},
             {"exit_code", or_null(exit_code)},
             {"signal", signal ? Json(signal_name(*signal)) : Json(nullptr)},
             {"fence", grant ? Json(grant->fence.number) : Json(nullptr)},
             {"slot", grant ? Json(grant->slot) : Json(nullptr)},
             {"store", text_or_null(run.store)},
             {"strength", grant ? or_null(grant->strength) : Json(nullptr)},
             {"host", run.host},
             {"user", run.user},
             {"command", run.command},
             {"label", text_or_null(run.label)},
             {"started", has_run ? Json(rfc3339(*result.started)) : Json(nullptr)},
             {"ended",
              has_run ? Json(rfc3339(*result.started + *result.ran)) : Json(nullptr)},
             {"waited_ms", or_null(result.waited)},
             {"ran_ms", or_null(result.ran)},
             {"holder", result.holder ? json_of(*result.holder) : Json(nullptr)},
             {"message", text_or_null(result.message)},
         }) +
         "\n";
}

ReportFile::ReportFile(const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    is_standard_error_ = true;
    return;
  }
  file_ = opened(path);
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
