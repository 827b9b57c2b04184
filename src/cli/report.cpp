#include "cli/report.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cli/lock_view.hpp"
#include "cli/speaker.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

bool is_same_file(const struct stat& status, int fd) {
  struct stat other {};
  return ::fstat(fd, &other) == 0 && other.st_dev == status.st_dev &&
         other.st_ino == status.st_ino;
}

}  // namespace

std::string name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ran: return "ran";
    case Outcome::busy: return "busy";
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

std::string report_line(const std::string& lock, const std::string& store,
                        const RunResult& result) {
  const auto& grant = result.grant;
  const bool lost = result.outcome == Outcome::lost && result.ran;
  const auto& exit_code = lost ? result.command_exit_code : result.exit_code;
  const auto& signal = lost ? result.command_signal : result.signal;
  return to_line(Json{
             {"name", lock},
             {"outcome", name_of(result.outcome)},
             {"reason", result.reason ? Json(loss_name(*result.reason)) : Json(nullptr)},
             {"protected", or_null(result.is_protected)},
             {"exit_code", or_null(exit_code)},
             {"signal", signal ? Json(signal_name(*signal)) : Json(nullptr)},
             {"fence", grant ? Json(grant->fence.number) : Json(nullptr)},
             {"slot", grant ? Json(grant->slot) : Json(nullptr)},
             {"store", store},
             {"waited_ms", or_null(result.waited)},
             {"ran_ms", or_null(result.ran)},
             {"holder", result.holder ? json_of(*result.holder) : Json(nullptr)},
             {"message", result.message.empty() ? Json(nullptr) : Json(result.message)},
         }) +
         "\n";
}

ReportFile::ReportFile(const std::string& path) {
  if (path.empty()) return;
  // O_NONBLOCK: a FIFO that nobody reads is an error and not a wait.
  file_ = Fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!file_) {
    throw failure_of_named(errno, "cannot write the report to " + printable(path));
  }
  // A slow reader at the end is waited for; the description is ours alone.
  ::fcntl(file_.get(), F_SETFL, 0);
}

bool ReportFile::write(const std::string& line) {
  if (!file_) return true;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    // Where it is /dev/stdout, the command's output stands in it already.
    if (is_same_file(status, STDOUT_FILENO) || is_same_file(status, STDERR_FILENO)) {
      ::lseek(file_.get(), 0, SEEK_END);
    } else if (::ftruncate(file_.get(), 0) != 0) {
      return false;  // only now: until there is something to say the old one stands
    }
  }
  return write_text(file_.get(), line);
}

}  // namespace dlock
