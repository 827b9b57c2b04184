#include "store/local/runs_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr const char* log_name = "runs.jsonl";
constexpr off_t longest = 8 << 20;              // some 30,000 lines
constexpr std::size_t shortened_to = 4u << 20;  // so that shortening is rare

// The most to read of a file: its end. Its length may be arbitrary.
constexpr off_t longest_read = 2 * longest;

// The contents from `at` on, or from a later offset if that would be too much.
std::string contents(int fd, off_t& at) {
  struct stat status {};
  if (::fstat(fd, &status) == 0) at = std::max(at, status.st_size - longest_read);
  std::string text;
  char buffer[65'536];
  while (text.size() < longest_read) {
    const auto size = ::pread(fd, buffer, sizeof buffer, at);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw failure_of(errno, "cannot read the store's log");
    if (size == 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
    at += size;
  }
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

  const std::string draft = std::string(log_name) + ".new";
  ::unlinkat(directory_.fd(), draft.c_str(), 0);
  const Fd shorter = directory_.create_file(draft, O_WRONLY | O_APPEND);
  off_t end = 0;
  auto text = contents(file.get(), end);
  // The bytes after the last complete line are read again below.
  const auto left_out = text.size() - (text.rfind('\n') + 1);
  end -= static_cast<off_t>(left_out);
  text.resize(text.size() - left_out);
  if (!write_all(shorter.get(), record::shortened(text, shortened_to)) ||
      ::renameat(directory_.fd(), draft.c_str(), directory_.fd(), log_name) != 0) {
    const int error = errno;
    ::unlinkat(directory_.fd(), draft.c_str(), 0);
    throw failure_of(error, "cannot trim " + printable(directory_.path_of(log_name)));
  }
  const auto since = contents(file.get(), end);
  write_all(shorter.get(), whole_lines(since));
}

History RunsLog::read() const { return record::history_of(text()); }

std::string RunsLog::text() const {
  const Fd file = directory_.open_file(log_name, O_RDONLY, false);
  off_t at = 0;
  return file ? contents(file.get(), at) : "";
}

}  // namespace dlock::local
