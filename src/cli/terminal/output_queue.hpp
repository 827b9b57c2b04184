// Queues lines for a slow standard output.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "loop/readable.hpp"

namespace dlock {

// Writes lines as fast as the descriptor accepts them and never blocks: the rest is kept,
// up to a limit. The descriptor is shared with other processes, so its flags are not
// changed.
class OutputQueue {
 public:
  // `ended` is called once, when nothing can be written any more: with the errno, or with
  // 0 if the reader has closed the pipe.
  OutputQueue(boost::asio::io_context& context, int fd, std::function<void(int)> ended);

  // Queues a line, which includes its newline. Returns false if the queue is full; then
  // the line is dropped.
  bool push(std::string line);

  // Whether push() would accept a line now.
  bool has_room() const;

  // Whether everything has been written.
  bool is_empty() const { return lines_.empty(); }

 private:
  void write_available();
  bool write_some();
  void end(int error);
  void ask(bool for_room);

  Fd terminal_;  // the descriptor, if it is a terminal that we may open
  int fd_;
  std::function<void(int)> ended_;
  std::deque<std::string> lines_;
  std::size_t written_ = 0;  // of the first line
  std::size_t waiting_ = 0;  // bytes
  Fd epoll_;
  std::optional<Readable> events_;  // nothing for a file, which is always writable
  bool asked_for_room_ = false;
  bool has_ended_ = false;
};

}  // namespace dlock
