#include "cli/terminal/speaker.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cli/terminal/slow_output.hpp"
#include "util/fd.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

// How long this process waits in total for a reader of standard error, because messages
// about the end of a run are printed before the lock is released.
milliseconds patience{200};

// Lines dropped since the last one that was printed.
std::size_t dropped = 0;

std::string complaint;
bool printed = false;
bool as_plugin = false;

void note(const std::string& name, const std::string& message) {
  complaint = (name.empty() ? "" : printable_name(name) + ": ") + message;
}

void say(Priority priority, const std::string& name, const std::string& message) {
  if (as_plugin) return;
  const auto about = name.empty() ? "" : printable_name(name) + ": ";
  const auto start = line_start(priority) + "dlock: " + about;
  // One write, so that lines of several dlock processes do not mix.
  auto text = start + message + "\n";
  if (dropped > 0) {
    text = start + "lines omitted because standard error was not read: " +
           std::to_string(dropped) + "\n" + text;
  }
  const bool is_step = priority == Priority::info;
  const auto begin = Clock::now();
  const bool is_said =
      write_within(STDERR_FILENO, text, is_step ? milliseconds(0) : patience);
  dropped = is_said ? 0 : dropped + 1;
  const auto took = std::chrono::ceil<milliseconds>(Clock::now() - begin);
  if (!is_step) patience -= std::min(patience, took);
}

// With --verbose.
constexpr milliseconds step_every = std::chrono::minutes(1);

constexpr milliseconds listened_every{10'000};

// What is left of a wait that is worth a line without a terminal.
constexpr milliseconds shortest_told{1000};

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

void WaitNotice::store_absent(const Failure& failure) {
  const std::string reason = failure.what();
  const std::string then = "; trying again";
  say(For::store, [&](std::size_t columns) {
    return cut_to(reason, columns - std::min(columns, columns_of(then))) + then;
  });
}

milliseconds WaitNotice::say(For what, const Text& text) {
  const auto now = Clock::now();
  auto good_for = milliseconds::max();
  constexpr auto any_columns = std::string::npos;
  if (listener_) {
    listener_(text(any_columns));
    good_for = listened_every;
  }
  if (speaker_.is_verbose()) {
    if (what != said_ || now >= say_again_) {
      speaker_.live("");
      speaker_.step(text(any_columns) + left());
      said_ = what;
      say_again_ = now + step_every;
    }
    const auto left_of_minute = std::chrono::ceil<milliseconds>(say_again_ - now);
    good_for = std::min(good_for, left_of_minute);
  } else if (what != said_ && say_again_ != Clock::time_point::max() &&
             until_ - now >= shortest_told && ::isatty(STDERR_FILENO) == 0) {
    // Nothing else shows there that it waits, and for whom: once for each.
    if (said_ != For::nothing) say_again_ = Clock::time_point::max();
    said_ = what;
    speaker_.warning(text(any_columns) + left());
  }
  return speaker_.live(line_of(text)) ? std::min(good_for, live_for) : good_for;
}

// The text, shortened so that the time left behind it is always seen.
std::string WaitNotice::line_of(const Text& text) const {
  const auto columns = speaker_.live_columns();
  const auto end = left();
  if (end.empty()) return text(columns);
  constexpr std::size_t least_text = 10;
  const auto used = columns_of(end);
  if (columns < used + least_text) return end.substr(end.find_first_not_of("; "));
  return cut_to(text(columns - used), columns - used) + end;
}

// "; 4m58s left" or "; 300ms left", or nothing where the wait has no end.
std::string WaitNotice::left() const {
  if (until_ == Clock::time_point::max()) return "";
  const auto left = until_ - Clock::now();
  const milliseconds step(left < std::chrono::seconds(10) ? 100 : 1000);
  const auto steps = std::max<std::int64_t>((left + step - nanoseconds(1)) / step, 0);
  return "; " + for_people(steps * step) + " left";
}

std::string output_failure(int error_number) {
  return failure_of(error_number, "cannot write to standard output").what();
}

const std::string& last_message() { return complaint; }

void answer_as_plugin() { as_plugin = true; }

bool answers_as_plugin() { return as_plugin; }

std::string plugin_answer(std::string_view state, const std::string& text) {
  return "DLOCK " + std::string(state) + " - " + replaced(text, "|", "\\x7c");
}

bool has_printed() { return printed; }

void print(const std::string& text) {
  if (!write_all(STDOUT_FILENO, text)) {
    throw Failure::unreachable(output_failure(errno));
  }
  printed = true;
}

bool use_color(Color wanted) {
  if (wanted != Color::automatic) return wanted == Color::always;
  return environment("NO_COLOR").empty() && !is_dumb_terminal() &&
         ::isatty(STDOUT_FILENO) != 0;
}

bool is_dumb_terminal() {
  const auto terminal = environment("TERM");
  return terminal.empty() || terminal == "dumb";
}

std::size_t columns_of_output() {
  return ::isatty(STDOUT_FILENO) == 0 ? 0 : columns_of_terminal(STDOUT_FILENO);
}

}  // namespace dlock
