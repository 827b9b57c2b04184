// Writes to descriptors whose reader may be slow, or may have stopped reading: a message,
// the output of a command, or a queue of lines.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "loop/wakeup.hpp"
#include "util/fd.hpp"

namespace dlock {

// Writes to a pipe, a socket or a terminal without blocking, although other processes
// share it, so that it cannot be made non-blocking: they would get errors that they do
// not expect. It is opened once more instead, where that is possible (not for example
// another user's pipe or terminal). Other descriptors, such as files, are never slow.
class SlowWriter {
 public:
  // `fd` has to stay open.
  explicit SlowWriter(int fd);

  // Whether a write may have to wait for a reader.
  bool can_block() const { return kind_ != Kind::other; }

  // The descriptor to watch for room.
  int fd() const { return own_ ? own_.get() : fd_; }

  // Waits for room, for at most `patience`, and writes as much as surely fits. Returns
  // how much that was; 0 if there was no room; -1 with errno if nothing can be written
  // any more.
  ssize_t write_some(std::string_view bytes, std::chrono::milliseconds patience = {});

 private:
  enum class Kind { socket, pipe, terminal, other };
  static Kind kind_of(int fd);

  int fd_;
  Kind kind_;
  Fd own_;
};

// Writes all of `text`. If the descriptor is a full pipe or socket, or a terminal that
// accepts nothing (Ctrl-S), waits for at most `patience`; other descriptors may block for
// longer. Returns false with errno on failure (EAGAIN: there is no reader); a part of a
// text longer than PIPE_BUF, or for a terminal of any text, may have been written then.
// Does not change whether the descriptor blocks for other processes. May be called in a
// signal handler.
bool write_within(int fd, std::string_view text, std::chrono::milliseconds patience);

// A separate epoll instance. `what`: what cannot be done without it. Throws Failure
// (exhausted).
Fd new_epoll(const std::string& what);

// A pipe that the command writes to and dlock reads, as an epoll instance tells. Asio
// cannot watch the descriptor itself: it would make it non-blocking for every process
// that shares it.
class CommandPipe {
 public:
  static constexpr std::size_t block = 64 * 1024;
  using Take = std::function<void(std::string_view)>;

  // Creates the pipe, and adds it to the instance, which does not watch it yet. Throws
  // Failure (exhausted).
  explicit CommandPipe(int epoll);

  // Both ends are close-on-exec.
  int writing_end() const { return writing_.get(); }
  int reading_end() const { return reading_.get(); }

  // To be called once the command has its end.
  void close_writing_end() { writing_.reset(); }

  // Whether there may be something to read.
  bool is_open() const { return static_cast<bool>(reading_); }

  // Has the instance report, once, that there are bytes or that all writers have closed.
  void wait_for_bytes();

  // Passes on at most `most` bytes that are there.
  void read(std::size_t most, const Take& take);

  // Passes on what is in the pipe at this moment, and nothing that other processes write
  // to it later; then closes it.
  void read_rest(const Take& take);

  // From then on, whoever writes to it gets SIGPIPE.
  void close();

 private:
  int epoll_;
  Fd reading_;
  Fd writing_;
};

// How long to wait for the reader of a descriptor that cannot be watched.
inline constexpr std::chrono::milliseconds unwatched_wait{1000};

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

  SlowWriter writer_;
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
