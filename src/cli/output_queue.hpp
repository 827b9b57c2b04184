// Lines for a standard output that is slow to take them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "util/readable.hpp"

namespace dlock {

// Writes lines as fast as they are taken, and never waits: what is not taken yet is kept,
// up to a limit. The descriptor belongs to others too, so its flags stay as they are.
class OutputQueue {
 public:
  // `ended` is called, once, when nothing can be written any more: with the errno, or 0
  // if nobody is there to read it.
  OutputQueue(boost::asio::io_context& context, int fd, std::function<void(int)> ended);

  // Takes a line with its end. False if too much is waiting: it is dropped.
  bool push(std::string line);

  // Whether it would take a line now.
  bool has_room() const;

  // Whether all of it has been taken.
  bool is_empty() const { return lines_.empty(); }

 private:
  void write_what_is_taken();
  bool write_some();
  void end(int error);
  void ask(bool for_room);

  int fd_;
  std::function<void(int)> ended_;
  std::deque<std::string> lines_;
  std::size_t written_ = 0;  // of the first line
  std::size_t waiting_ = 0;  // bytes
  Fd epoll_;
  std::optional<Readable> events_;  // nothing for a file, which always takes everything
  bool asked_for_room_ = false;
  bool has_ended_ = false;
};

}  // namespace dlock
