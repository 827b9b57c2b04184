// Captures and forwards the standard output of a command.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "loop/readable.hpp"
#include "util/fd.hpp"

namespace dlock {

// Buffers the command's output up to a limit, so that it can be cached. Past the limit
// the output will not be cached, so everything is forwarded to dlock's own standard
// output; then the command is read only as fast as standard output accepts the data.
class CommandOutput {
 public:
  // Creates the pipe. Throws Failure (exhausted).
  explicit CommandOutput(std::size_t most);

  // Both ends are close-on-exec.
  int writing_end() const { return writing_.get(); }
  int reading_end() const { return reading_.get(); }

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
  void take(std::size_t most);
  void add(const char* bytes, std::size_t size);
  void pass_on();
  void give_up();
  void watch();
  int output() const { return terminal_ ? terminal_.get() : STDOUT_FILENO; }
  std::size_t left() const { return bytes_.size() - passed_; }

  std::size_t most_;
  Fd reading_;
  Fd writing_;
  // Our own epoll instance, which Asio watches while the command runs. Asio cannot watch
  // the descriptors themselves: it would make them non-blocking for every process that
  // shares them.
  Fd epoll_;
  std::optional<Readable> poll_;
  Fd terminal_;         // standard output, if it is one that we may open
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

}  // namespace dlock
