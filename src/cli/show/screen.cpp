#include "cli/show/screen.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <numeric>
#include <string_view>
#include <utility>

#include "cli/terminal/speaker.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {

namespace {

constexpr std::size_t gap = 2;  // between columns

// Columns are not cut below this width; a shorter text would be useless.
constexpr std::size_t least = 8;
constexpr std::size_t least_at_end = 4;

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1));
}

// `widths` with the widest columns narrowed until all fit; nothing if that would leave
// too little of them.
std::optional<std::vector<std::size_t>> narrowed(std::vector<std::size_t> widths,
                                                 std::size_t columns) {
  while (total(widths) > columns) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest > least) {
      --*widest;
    } else if (widths.back() > least_at_end) {
      --widths.back();
    } else {
      return std::nullopt;
    }
  }
  return widths;
}

// The widths that fit, dropping the last columns if necessary.
std::vector<std::size_t> fitted(std::vector<std::size_t> widths, std::size_t columns) {
  for (; widths.size() > 1; widths.pop_back()) {
    if (auto fits = narrowed(widths, columns)) return *fits;
  }
  return {std::min(widths.front(), columns)};
}

const char* code_of(Paint paint) {
  switch (paint) {
    case Paint::green: return "\x1b[32m";
    case Paint::yellow: return "\x1b[33m";
    case Paint::red: return "\x1b[31m";
    case Paint::bold: return "\x1b[1m";
    case Paint::plain: break;
  }
  return "\x1b[0m";
}

}  // namespace

std::string colored(const std::string& text, Paint paint, bool wanted) {
  return wanted && paint != Paint::plain ? code_of(paint) + text + "\x1b[0m" : text;
}

void Table::leave_out_unused() {
  for (auto column = rows_.front().size(); column-- > 0;) {
    auto& title = rows_.front()[column];
    if (!title.starts_with('?')) continue;
    title.erase(0, 1);
    const auto has_cell = [&](const auto& row) { return !row[column].empty(); };
    if (std::any_of(rows_.begin() + 1, rows_.end(), has_cell)) continue;
    for (auto& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
}

std::string Table::text(const std::string& indent, bool color, std::size_t columns) {
  leave_out_unused();
  auto widest = widths();
  if (columns > 0) widest = fitted(widest, columns - std::min(columns, indent.size()));
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t column = 0; column < std::min(row.size(), widest.size()); ++column) {
      if (column > 0) line.append(gap, ' ');
      const auto cell = cut_to(row[column], widest[column]);
      line += cell;
      line.append(widest[column] - columns_of(cell), ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    const bool titles = &row == &rows_.front();
    out += (titles ? colored(line, Paint::bold, color) : line) + "\n";
  }
  return out;
}

// The width of each column: that of its widest cell.
std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widest(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widest[column] = std::max(widest[column], columns_of(row[column]));
    }
  }
  return widest;
}

namespace {

// The alternate screen, so that the old content is restored, without a cursor.
constexpr std::string_view entering = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view leaving = "\x1b[?25h\x1b[?1049l";

sigset_t only_stops() {
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGTSTP);
  return stops;
}

bool is_in_front() {
  return ::isatty(STDIN_FILENO) != 0 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

// Does not write to a terminal stopped by Ctrl-S, which would delay dlock's exit.
void write_at_once(std::string_view text) {
  constexpr milliseconds patience{100};
  write_within(STDOUT_FILENO, text, patience);
}

}  // namespace

std::vector<std::string> lines_within(const std::string& text, const std::string& last,
                                      const Window& window) {
  const auto parts = split(text, '\n');
  // Each line ends with a newline.
  std::vector<std::string> lines(parts.begin(), parts.end() - 1);
  const std::size_t below = last.empty() ? 0 : 1;
  const auto room = window.rows - std::min(window.rows, below);
  if (lines.size() > room) {
    const auto kept = room - std::min<std::size_t>(room, 1);
    const auto left_out = lines.size() - kept;
    lines.resize(kept);
    if (room > 0) lines.push_back("and " + std::to_string(left_out) + " more");
  }
  if (!last.empty()) lines.push_back(last);
  for (auto& line : lines) line = cut_to(line, window.columns);
  return lines;
}

std::string drawn(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (const auto& line : lines) {
    if (&line != &lines.front()) text += "\r\n";
    text += line + "\x1b[K";
  }
  return text + "\x1b[J";
}

Screen::Screen(boost::asio::io_context& context, std::function<void()> changed)
    : context_(context),
      changed_(std::move(changed)),
      output_(context, STDOUT_FILENO, [this](int) {
        is_gone_ = true;
        changed_();
      }) {
  const auto stops = only_stops();
  ::sigprocmask(SIG_BLOCK, &stops, nullptr);
  Fd fd(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw failure_of_call(errno, "cannot receive signals", "signalfd4");
  stops_.emplace(context, std::move(fd), [this] { stop(); });
  enter();
}

Screen::~Screen() { leave(); }

Window Screen::window() const {
  constexpr std::size_t usual_rows = 24;  // if the terminal does not report it
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

void Screen::forget() {
  shown_.clear();
  if (!keys_) take_keys();
}

void Screen::enter() {
  write_at_once(entering);
  forget();
}

void Screen::leave() {
  keys_.reset();
  if (modes_ && is_in_front()) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*modes_);
  modes_.reset();
  write_at_once(leaving);
}

// Reads single keys without echo. A background process leaves the terminal's modes and
// input alone: it would be stopped for changing them.
void Screen::take_keys() {
  termios modes{};
  if (!is_in_front() || ::tcgetattr(STDIN_FILENO, &modes) != 0) return;
  // Standard input is our controlling terminal, as tcgetpgrp(2) has found. It is opened
  // again because Readable makes it non-blocking, for all that share the descriptor.
  Fd fd(::open("/dev/tty", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return;
  modes_ = modes;
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  keys_.emplace(context_, std::move(fd), [this] { read_keys(); });
}

void Screen::read_keys() {
  char keys[64];
  const auto size = is_in_front() ? ::read(keys_->fd(), keys, sizeof keys) : 0;
  if (size <= 0) {
    keys_.reset();
    return;
  }
  const std::string_view typed(keys, static_cast<std::size_t>(size));
  is_left_ = is_left_ || typed.find_first_of("qQ") != std::string_view::npos;
  changed_();
}

void Screen::stop() {
  signalfd_siginfo info{};
  [[maybe_unused]] const auto size = ::read(stops_->fd(), &info, sizeof info);
  leave();
  ::raise(SIGSTOP);
  enter();
  changed_();
}

}  // namespace dlock
