#include "store/local/event_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/failure.hpp"

namespace dlock::local {
namespace {

constexpr const char* former_file = "events.old";
constexpr off_t longest_file_of_events = 1 << 20;
constexpr std::size_t shortest_event_line = 40;  // none with all fields is shorter
constexpr std::size_t longest_event_line = 64 << 10;

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

void publish(const Directory& directory, SessionsFile& sessions,
             const std::vector<Event>& events) {
  if (events.empty()) return;
  std::string lines;
  for (const auto& event : events) lines += line_of(event);
  // Waits while another process writes. Without this two could replace the file at the
  // same time, and watchers would miss events.
  constexpr int most_tries = 20;
  bool is_ours = false;
  try {
    is_ours = sessions.try_lock(events_mutex);
    for (int tries = 1; !is_ours && tries < most_tries; ++tries) {
      ::usleep(1000);
      is_ours = sessions.try_lock(events_mutex);
    }
    Fd file = directory.open_file(events_file, O_WRONLY | O_APPEND, true);
    struct stat status {};
    if (is_ours && ::fstat(file.get(), &status) == 0 &&
        status.st_size >= longest_file_of_events &&
        ::renameat(directory.fd(), events_file, directory.fd(), former_file) == 0) {
      file = directory.open_file(events_file, O_WRONLY | O_APPEND, true);
    }
    write_all(file.get(), lines);
  } catch (const Failure&) {
    // A failure (a full disk, no locks) must not prevent a grant or a release.
  }
  if (is_ours) sessions.unlock(events_mutex);
}

EventReader::EventReader(const Directory& directory)
    : directory_(directory),
      file_(directory.open_file(events_file, O_RDONLY, true)),
      at_(::lseek(file_.get(), 0, SEEK_END)) {}

std::optional<std::vector<Event>> EventReader::read() {
  std::vector<Event> events;
  struct stat own {};
  struct stat named {};
  ::fstat(file_.get(), &own);
  // Before reading: later events are in the next file.
  const auto is_named = [&](const char* name) {
    return ::fstatat(directory_.fd(), name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_same_file(own, named);
  };
  const bool is_present = is_named(events_file);
  const bool is_former = !is_present && is_named(former_file);
  was_replaced_ = !is_present;
  if (!read_lines(events)) return std::nullopt;
  if (is_present) return events;
  if (!is_former) return std::nullopt;
  file_ = directory_.open_file(events_file, O_RDONLY, true);
  at_ = 0;
  rest_.clear();
  if (!read_lines(events)) return std::nullopt;
  return events;
}

bool EventReader::read_lines(std::vector<Event>& events) {
  char buffer[16'384];
  for (off_t read = 0;;) {
    const auto size = ::pread(file_.get(), buffer, sizeof buffer, at_);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) break;
    at_ += size;
    read += size;
    rest_.append(buffer, static_cast<std::size_t>(size));
    // More than dlock leaves in the file: another program wrote it.
    if (read > 2 * longest_file_of_events) return false;
  }
  std::size_t begin = 0;
  for (auto end = rest_.find('\n'); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    const auto line = std::string_view(rest_).substr(begin, end - begin);
    begin = end + 1;
    if (line.size() < shortest_event_line) continue;
    if (auto event = event_from(line)) events.push_back(std::move(*event));
  }
  rest_.erase(0, begin);
  return rest_.size() <= longest_event_line;
}

}  // namespace dlock::local
