// A terminal that is drawn on as a whole.
#pragma once

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
// for the time in which Ctrl-Z has stopped this process. It knows no locks.
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

 private:
  void enter();
  void leave();
  void stop();

  std::function<void()> changed_;
  OutputQueue output_;
  std::optional<Readable> stops_;  // Ctrl-Z
  std::string shown_;
  bool is_gone_ = false;
};

}  // namespace dlock
