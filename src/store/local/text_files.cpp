#include "store/local/text_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/bits.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr const char* log_name = "runs.jsonl";
constexpr off_t longest = 8 << 20;              // some 30,000 lines
constexpr std::size_t shortened_to = 4u << 20;  // so that shortening is rare

// The most to read of a file: its end. Its length may be arbitrary.
constexpr off_t longest_read = 2 * longest;

// The contents from `at` on, or from a later offset if that would be too much; `at`
// becomes where they end.
std::string contents(int fd, off_t& at) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_failure_of(errno, "cannot read the store's log");
  at = std::max(at, status.st_size - longest_read);
  const auto size = static_cast<std::size_t>(std::max<off_t>(status.st_size - at, 0));
  auto text = contents_of(fd, size, "the store's log", at);
  at += static_cast<off_t>(text.size());
  return text;
}

// A line break if the last line is incomplete (a full disk, a crash); otherwise empty.
std::string line_break_for(int fd, const struct stat& status) {
  char last = '\n';
  const bool cut = status.st_size > 0 && ::pread(fd, &last, 1, status.st_size - 1) == 1 &&
                   last != '\n';
  return cut ? "\n" : "";
}

// Without an incomplete last line, which may just be being written.
std::string whole_lines(std::string text) {
  text.resize(text.rfind('\n') + 1);
  return text;
}

}  // namespace

Fd RunsLog::open_for_note(std::string& before) {
  struct stat status {};
  Fd file = directory_.open_file(log_name, O_RDWR | O_APPEND, true, &status);
  before.insert(0, line_break_for(file.get(), status));
  return file;
}

RunsLog::Length RunsLog::append(const std::string& lines) {
  // The log is shortened rarely, but some file systems count no links.
  constexpr int most_tries = 4;
  for (int tries = 1;; ++tries) {
    struct stat status {};
    const Fd file = directory_.open_file(log_name, O_RDWR | O_APPEND, true, &status);
    // One write, so that lines of several processes do not mix.
    if (!write_all(file.get(), line_break_for(file.get(), status) + lines)) {
      throw failure_of(errno,
                       "cannot write to " + printable(directory_.path_of(log_name)));
    }
    const bool was_long = status.st_size >= longest;
    // shorten() copies such lines after the new file is in place; lines written even
    // later are written again here. A duplicate line does no harm.
    const bool replaced = ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
    if (!replaced || tries == most_tries)
      return was_long ? Length::too_long : Length::usual;
  }
}

void RunsLog::shorten() {
  struct stat status {};
  const Fd file = directory_.open_file(log_name, O_RDONLY, false, &status);
  if (!file || status.st_size < longest) return;

  Draft shorter(directory_, log_name, O_WRONLY | O_APPEND,
                "cannot trim " + printable(directory_.path_of(log_name)));
  off_t end = 0;
  auto text = contents(file.get(), end);
  // The bytes after the last complete line are read again below.
  const auto left_out = text.size() - (text.rfind('\n') + 1);
  end -= static_cast<off_t>(left_out);
  text.resize(text.size() - left_out);
  shorter.write(record::shortened(text, shortened_to));
  shorter.put_in_place();
  const auto since = contents(file.get(), end);
  write_all(shorter.fd(), whole_lines(since));
}

record::History RunsLog::read() const { return record::history_of(text()); }

std::string RunsLog::text() const {
  const Fd file = directory_.open_file(log_name, O_RDONLY, false);
  off_t at = 0;
  return file ? contents(file.get(), at) : "";
}

namespace {

constexpr const char* former_file = "events.old";
constexpr off_t longest_file_of_events = 1 << 20;
constexpr std::size_t shortest_event_line = 40;  // none with all fields is shorter
constexpr std::size_t longest_event_line = 64 << 10;

}  // namespace

void publish(const Directory& directory, SessionsFile& sessions,
             const std::vector<Event>& events) {
  if (events.empty()) return;
  std::string lines;
  for (const auto& event : events) lines += record::line_of(event);
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
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
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
    if (auto event = record::event_from(line)) events.push_back(std::move(*event));
  }
  rest_.erase(0, begin);
  return rest_.size() <= longest_event_line;
}

namespace {

constexpr const char* fences_file = "fences";

std::string last_line(std::string_view text) {
  return "sum " + checksum_text(checksum(text)) + "\n";
}

// "NAMESPACE NAME FENCE", both names percent-encoded.
std::optional<std::pair<LockName, Fence>> register_from(std::string_view line) {
  const auto first = line.find(' ');
  const auto second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return std::nullopt;
  }
  const auto name_space = percent_decoded(line.substr(0, first));
  const auto name = percent_decoded(line.substr(first + 1, second - first - 1));
  const auto fence = number_in<std::uint64_t>(line.substr(second + 1));
  if (!name_space || !name || !fence) return std::nullopt;
  LockName resource{*name_space, *name};
  if (!is_valid(resource)) return std::nullopt;
  return std::pair(std::move(resource), Fence{*fence});
}

// Some hundred thousand registers; dlock writes no larger file.
constexpr std::size_t longest_registers = 16 << 20;

}  // namespace

std::string registers_text(const FencesAdmitted& fences) {
  std::string text;
  for (const auto& [resource, fence] : fences) {
    text += percent_encoded(resource.name_space) + " " + percent_encoded(resource.name) +
            " " + std::to_string(fence.number) + "\n";
  }
  return text + last_line(text);
}

std::optional<FencesAdmitted> registers_from(std::string_view text) {
  const auto sum_size = last_line("").size();
  if (text.size() < sum_size) return std::nullopt;
  auto lines = text.substr(0, text.size() - sum_size);
  if (text.substr(lines.size()) != last_line(lines)) return std::nullopt;
  FencesAdmitted fences;
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const auto found = register_from(lines.substr(0, end));
    if (!found) return std::nullopt;
    fences.insert(*found);
    lines.remove_prefix(end + 1);
  }
  return fences;
}

Admission Registers::admit(const LockName& resource, Fence fence) {
  auto fences = read();
  auto& greatest = fences[resource];
  if (fence < greatest) return Admission::stale;
  if (greatest < fence) {
    greatest = fence;
    replace(registers_text(fences));
  }
  // Even if the fence was there already: its writer may have been killed before the sync.
  // Some file systems cannot sync a directory (EINVAL).
  if (::fsync(directory_.fd()) != 0 && errno != EINVAL) {
    throw failure_of(errno, "cannot sync " + printable(directory_.path()));
  }
  return Admission::admitted;
}

FencesAdmitted Registers::read() const {
  struct stat status {};
  const Fd file = directory_.open_file(fences_file, O_RDONLY, false, &status);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  auto fences = size > longest_registers
                    ? std::nullopt
                    : registers_from(contents_of(file.get(), size, "the fences"));
  if (!fences) {
    throw Failure::misconfigured(
        printable(directory_.path_of(fences_file)) +
        " is damaged; without it stale writers would be admitted: restore "
        "it, or move it away once there are none");
  }
  return std::move(*fences);
}

void Registers::replace(const std::string& text) {
  Draft draft(directory_, fences_file, O_WRONLY,
              "cannot write " + printable(directory_.path_of(fences_file)));
  draft.write(text);
  draft.put_in_place(true);
}

}  // namespace dlock::local
