#include "cli/terminal/speaker.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "util/bounded_write.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"
#include "util/journal.hpp"
#include "util/text.hpp"
#include "util/width.hpp"

namespace dlock {
namespace {

// How long this process waits in total for a reader of standard error, because messages
// about the end of a run are printed before the lock is released.
milliseconds patience{200};

// Lines dropped since the last one that was printed.
std::size_t dropped = 0;

std::string complaint;
bool printed = false;

void note(const std::string& name, const std::string& message) {
  complaint = (name.empty() ? "" : printable_name(name) + ": ") + message;
}

void say(Priority priority, const std::string& name, const std::string& message) {
  const auto about = name.empty() ? "" : printable_name(name) + ": ";
  const auto start = line_start(priority) + "dlock: " + about;
  // One write, so that lines of several dlock processes do not mix.
  auto text = start + message + "\n";
  if (dropped > 0) {
    text = start + "lines omitted because nobody read them: " + std::to_string(dropped) +
           "\n" + text;
  }
  const bool is_step = priority == Priority::info;
  const auto begin = Clock::now();
  const bool is_said =
      write_within(STDERR_FILENO, text, is_step ? milliseconds(0) : patience);
  dropped = is_said ? 0 : dropped + 1;
  const auto took = std::chrono::ceil<milliseconds>(Clock::now() - begin);
  if (!is_step) patience -= std::min(patience, took);
}

std::size_t columns_of_terminal(int fd) {
  constexpr std::size_t usual = 80;  // if the terminal does not report it
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual;
}

// Some terminals wrap to the next line after the last column.
std::size_t live_line_columns() { return columns_of_terminal(STDERR_FILENO) - 1; }

}  // namespace

void Speaker::error(const std::string& message) const {
  note(name_, message);
  say(Priority::error, name_, message);
}

void Speaker::urgent_warning(const std::string& message) const {
  say(Priority::warning, name_, message);
}

void Speaker::warning(const std::string& message) const {
  note(name_, message);
  if (!quiet_) say(Priority::warning, name_, message);
}

void Speaker::step(const std::string& message) const {
  if (verbose_) say(Priority::info, name_, message);
}

bool Speaker::live(const std::string& message) {
  if (message.empty() && live_shown_ == 0) return false;
  if (quiet_ || ::isatty(STDERR_FILENO) == 0) return false;
  const auto line =
      message.empty() ? "" : cut_to(live_start() + message, live_line_columns());
  const auto columns = columns_of(line);
  std::string text;
  if (is_dumb_terminal()) {
    // Overwrites the rest of the old line with spaces and returns.
    const auto rest = live_shown_ - std::min(live_shown_, columns);
    text = "\r" + line + std::string(rest, ' ') + (line.empty() ? "\r" : "");
  } else {
    text = "\r\x1b[K" + line;
  }
  const bool is_written = write_within(STDERR_FILENO, text, milliseconds(0));
  // A part of the old or of the new line may be there otherwise.
  live_shown_ = is_written ? columns : std::max(live_shown_, columns);
  return columns > 0;
}

std::size_t Speaker::live_columns() const {
  const auto line = live_line_columns();
  return line - std::min(line, columns_of(live_start()));
}

// The message takes precedence over a long name.
std::string Speaker::live_start() const {
  return "dlock: " + cut_to(printable_name(name_), live_line_columns() / 3) + ": ";
}

bool write_text(int fd, std::string_view text) { return write_all(fd, text); }

std::string output_failure(int error_number) {
  return failure_of(error_number, "cannot write to standard output").what();
}

const std::string& last_message() { return complaint; }

bool has_printed() { return printed; }

void print(const std::string& text) {
  if (!write_text(STDOUT_FILENO, text)) {
    throw Failure(Failure::Kind::unreachable, output_failure(errno));
  }
  printed = true;
}

bool use_color(Color wanted) {
  if (wanted != Color::automatic) return wanted == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && !is_dumb_terminal() &&
         ::isatty(STDOUT_FILENO) != 0;
}

bool is_dumb_terminal() {
  const char* terminal = std::getenv("TERM");
  return terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb";
}

std::size_t columns_of_output() {
  return ::isatty(STDOUT_FILENO) == 0 ? 0 : columns_of_terminal(STDOUT_FILENO);
}

}  // namespace dlock
