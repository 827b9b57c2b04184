#include "cli/speaker.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "util/fd.hpp"
#include "util/journal.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

void say(Priority priority, const std::string& name, const std::string& message) {
  const auto about = name.empty() ? "" : printable(name, 255) + ": ";
  // One write, so that lines of several dlocks do not mix.
  write_text(STDERR_FILENO, line_start(priority) + "dlock: " + about + message + "\n");
}

}  // namespace

void Speaker::error(const std::string& message) const {
  say(Priority::error, name_, message);
}

void Speaker::urgent_warning(const std::string& message) const {
  say(Priority::warning, name_, message);
}

void Speaker::warning(const std::string& message) const {
  if (!quiet_) say(Priority::warning, name_, message);
}

void Speaker::step(const std::string& message) const {
  if (verbose_) say(Priority::info, name_, message);
}

void Speaker::live(const std::string& message) {
  if (message.empty() && !live_shown_) return;
  if (quiet_ || ::isatty(STDERR_FILENO) == 0) return;
  constexpr std::string_view start_over = "\r\x1b[K";
  const auto line =
      message.empty() ? "" : "dlock: " + printable(name_, 255) + ": " + message;
  write_text(STDERR_FILENO, std::string(start_over) + line);
  live_shown_ = !message.empty();
}

bool write_text(int fd, std::string_view text) { return write_all(fd, text); }

void print(const std::string& text) {
  if (!write_text(STDOUT_FILENO, text)) {
    throw Failure(Failure::Kind::unreachable, "cannot write to standard output");
  }
}

bool use_color(Color wanted) {
  if (wanted != Color::automatic) return wanted == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return (no_color == nullptr || *no_color == '\0') && !dumb &&
         ::isatty(STDOUT_FILENO) != 0;
}

std::size_t columns_of_output() {
  constexpr std::size_t usual = 80;  // of a terminal that does not know
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0) return 0;
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual;
}

}  // namespace dlock
