#include "store/local/event_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

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

std::string line_of(const Event& event) {
  Json json{
      {"time", event.time.count()},
      {"event", event_name(event.kind)},
      {"namespace", event.lock.name_space},
      {"name", event.lock.name},
      {"fence", event.fence.number},
      {"free", event.free},
      {"host", event.host},
      {"pid", event.pid},
      {"user", event.user},
      {"label", event.label},
      {"command", event.command},
  };
  if (event.run) {
    json["outcome"] = event.run->outcome;
    json["duration_ms"] = event.run->duration.value_or(milliseconds(0)).count();
    if (event.run->exit_code) json["exit_code"] = *event.run->exit_code;
    if (event.run->signal) json["signal"] = *event.run->signal;
    if (!event.run->reason.empty()) json["reason"] = event.run->reason;
  }
  if (event.taken_by) {
    json["taken_by"] = {{"user", event.taken_by->user},
                        {"host", event.taken_by->host},
                        {"replaces", event.taken_by->replaces}};
  }
  return to_line(json) + "\n";
}

std::optional<Event> event_from(std::string_view line) {
  const auto object = object_from(line);
  if (!object) return std::nullopt;
  const auto& json = *object;
  const auto kind = event_kind_of(text_at(json, "event"));
  Event event;
  event.lock = {text_at(json, "namespace"), text_at(json, "name")};
  if (!kind || !is_valid(event.lock)) return std::nullopt;
  event.kind = *kind;
  event.time = WallTime(count_at(json, "time").value_or(0));
  event.fence.number = static_cast<std::uint64_t>(count_at(json, "fence").value_or(0));
  event.free = static_cast<unsigned>(count_at(json, "free").value_or(0));
  event.host = text_at(json, "host");
  event.pid = pid_at(json, "pid");
  event.user = text_at(json, "user");
  event.label = text_at(json, "label");
  event.command = words_at(json, "command");
  if (const auto outcome = text_at(json, "outcome"); !outcome.empty()) {
    auto& run = event.run.emplace();
    run.ended = event.time;
    run.outcome = outcome;
    run.reason = text_at(json, "reason");
    run.duration = milliseconds(count_at(json, "duration_ms").value_or(0));
    run.exit_code = exit_code_at(json, "exit_code");
    if (const auto signal = text_at(json, "signal"); !signal.empty()) run.signal = signal;
  }
  if (const auto taker = json.find("taken_by");
      taker != json.end() && taker->is_object()) {
    event.taken_by = Taker{text_at(*taker, "user"), text_at(*taker, "host"),
                           flag_at(*taker, "replaces")};
  }
  return event;
}

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
