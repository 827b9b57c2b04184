#include "cli/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "cli/speaker.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

// The alternate screen, so that what was there comes back; and no cursor.
constexpr std::string_view entering = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view leaving = "\x1b[?25h\x1b[?1049l";

sigset_t only_stops() {
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGTSTP);
  return stops;
}

// Not to a terminal that Ctrl-S has stopped: it would hold up our end.
void write_at_once(std::string_view text) {
  constexpr int patience_ms = 100;
  pollfd wanted{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&wanted, 1, patience_ms) > 0) write_text(STDOUT_FILENO, text);
}

}  // namespace

Screen::Screen(boost::asio::io_context& context, std::function<void()> changed)
    : changed_(std::move(changed)), output_(context, STDOUT_FILENO, [this](int) {
        is_gone_ = true;
        changed_();
      }) {
  const auto stops = only_stops();
  ::sigprocmask(SIG_BLOCK, &stops, nullptr);
  Fd fd(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw failure_of(errno, "cannot receive signals");
  stops_.emplace(context, std::move(fd), [this] { stop(); });
  enter();
}

Screen::~Screen() { leave(); }

Window Screen::window() const {
  constexpr std::size_t usual_rows = 24;  // of a terminal that does not know
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return {columns_of_output(), known ? size.ws_row : usual_rows};
}

void Screen::draw(const std::vector<std::string>& lines) {
  auto text = drawn(lines);
  if (text == shown_ || !output_.is_empty()) return;
  shown_ = text;
  output_.push(std::move(text));
}

void Screen::forget() { shown_.clear(); }

void Screen::enter() {
  write_at_once(entering);
  forget();
}

void Screen::leave() { write_at_once(leaving); }

void Screen::stop() {
  signalfd_siginfo info{};
  [[maybe_unused]] const auto size = ::read(stops_->fd(), &info, sizeof info);
  leave();
  ::raise(SIGSTOP);
  enter();
  changed_();
}

}  // namespace dlock
