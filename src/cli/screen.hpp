// A terminal that is drawn on as a whole.
#pragma once

#include <termios.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/live_view.hpp"
#include "cli/output_queue.hpp"
#include "util/readable.hpp"

namespace dlock {

// Has the terminal that standard output is from its construction to its destruction, but
// for the time in which Ctrl-Z has stopped this process; and the keys that are typed, if
// standard input is a terminal, too. It knows no locks.
class Screen {
 public:
  // `changed` is called when everything has to be drawn anew, and when nothing can be any
  // more. Throws Failure (exhausted).
  Screen(boost::asio::io_context& context, std::function<void()> changed);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Window window() const;

  // Draws these lines unless they are there already, or the terminal is too slow.
  void draw(const std::vector<std::string>& lines);

  // What is there is not what was drawn: the window has another size.
  void forget();

  bool is_gone() const { return is_gone_; }

  // Whether somebody has typed a q.
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
  std::optional<Readable> keys_;   // if standard input is a terminal, and ours to read
  std::optional<termios> modes_;   // of that terminal, as they were
  std::string shown_;
  bool is_gone_ = false;
  bool is_left_ = false;
};

}  // namespace dlock
