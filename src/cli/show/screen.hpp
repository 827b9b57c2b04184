// What is seen on a terminal: text in columns and colors, and full screens.
#pragma once

#include <termios.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/slow_output.hpp"
#include "loop/wakeup.hpp"

namespace dlock {

enum class Paint { plain, bold, green, yellow, red };

// `text` in that color if `wanted`.
std::string colored(const std::string& text, Paint paint, bool wanted);

// Columns as wide as their widest cell.
class Table {
 public:
  // A column whose title begins with `?` is left out if no row has a cell in it.
  explicit Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The table as lines of at most `columns`, if that is not 0: long cells are cut first,
  // and if too little of them is left, the last columns of the table are dropped.
  std::string text(const std::string& indent, bool color, std::size_t columns = 0);

 private:
  void leave_out_unused();
  std::vector<std::size_t> widths() const;

  std::vector<std::vector<std::string>> rows_;
};

struct Window {
  std::size_t columns = 0;
  std::size_t rows = 0;
};

// The lines of `text`, cut to the window, followed by `last` unless it is empty. If there
// are too many lines, "and N more" replaces the rest.
std::vector<std::string> lines_within(const std::string& text, const std::string& last,
                                      const Window& window);

// The control sequences that draw these lines over the old ones. The screen is not
// cleared first, because that would flicker.
std::string drawn(const std::vector<std::string>& lines);

// Takes over the terminal from construction to destruction, except while Ctrl-Z has
// stopped this process. Also reads keys if standard input is a terminal. It knows nothing
// of locks.
class Screen {
 public:
  // `changed` is called when the screen has to be redrawn, and when it cannot be drawn
  // any more. Throws Failure (exhausted).
  Screen(boost::asio::io_context& context, std::function<void()> changed);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Window window() const;

  // Draws these lines unless they are already shown or the terminal is too slow.
  void draw(const std::vector<std::string>& lines);

  // Forgets what was drawn, because the window has a new size.
  void forget();

  bool is_gone() const { return is_gone_; }

  // Whether the user has typed q.
  bool is_left() const { return is_left_; }

 private:
  void take_keys();
  void read_keys();
  void enter();
  void leave();
  void stop();

  boost::asio::io_context& context_;
  std::function<void()> changed_;
  OutputQueue output_;
  std::optional<Readable> stops_;  // Ctrl-Z
  std::optional<Readable> keys_;   // set if standard input is a terminal that we may read
  std::optional<termios> modes_;   // the original modes of that terminal
  std::string shown_;
  bool is_gone_ = false;
  bool is_left_ = false;
};

}  // namespace dlock
