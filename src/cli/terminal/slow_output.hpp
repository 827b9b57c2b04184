// Writes to descriptors whose reader may be slow, or may have stopped reading: a message,
// the output of a command, or a queue of lines.
#pragma once

#include <sys/types.h>
#include <unistd.h>

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

// Buffers the command's output up to a limit, so that it can be cached. Past the limit
// the output will not be cached, so everything is forwarded to dlock's own standard
// output; then the command is read only as fast as standard output accepts the data.
class CommandOutput {
 public:
  // Creates the pipe. Throws Failure (exhausted).
  explicit CommandOutput(std::size_t most);

  // Both ends are close-on-exec.
  int writing_end() const { return pipe_.writing_end(); }
  int reading_end() const { return pipe_.reading_end(); }

  // Allocates what start() needs, for use until stop(). Throws Failure (exhausted).
  void prepare(boost::asio::io_context& context);

  // To be called once the command runs with its end of the pipe: reads from it until
  // stop().
  void start();

  // To be called once the command has ended, or if it was not started. Reads what is in
  // the pipe at that moment, and nothing that other processes may write to it later.
  void stop();

  // The complete output, or null if it exceeded the limit.
  const std::string* whole() const { return passes_on_ ? nullptr : &bytes_; }

  // Writes the output that was not forwarded yet, and waits for a slow reader. Returns
  // whether all of the output was written; if not, error() is the errno.
  bool print();
  int error() const { return error_; }

 private:
  void look();
  void add(std::string_view bytes);
  void pass_on();
  void give_up();
  void watch();
  std::size_t left() const { return bytes_.size() - passed_; }

  std::size_t most_;
  Fd epoll_;  // our own instance, which Asio watches while the command runs
  CommandPipe pipe_;
  std::optional<Readable> poll_;
  SlowWriter writer_{STDOUT_FILENO};
  bool blocks_ = true;  // whether standard output can block; a file cannot
  std::string bytes_;
  std::size_t passed_ = 0;  // bytes of these
  bool passes_on_ = false;
  bool failed_ = false;  // standard output cannot be written any more
  int error_ = 0;        // why
};

// Writes all of `bytes` to standard output, even if it is non-blocking. Returns false if
// that is not possible.
bool print_bytes(std::string_view bytes);

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
