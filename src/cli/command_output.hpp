// The standard output of a command, on its way through dlock.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "util/fd.hpp"
#include "util/readable.hpp"

namespace dlock {

// Keeps what a command writes, up to a limit. Beyond it there is no reason to: then it
// passes everything on to dlock's own standard output, as fast as that takes it, and
// takes no more than that from the command.
class CommandOutput {
 public:
  // Makes the pipe. Throws Failure (exhausted).
  explicit CommandOutput(std::size_t most);

  // Both close-on-exec.
  int writing_end() const { return writing_.get(); }
  int reading_end() const { return reading_.get(); }

  // Makes ready what start() needs, until stop(). Throws Failure (exhausted).
  void prepare(boost::asio::io_context& context);

  // The command runs and has its end: takes what comes from now on. Until stop().
  void start();

  // The command has ended, or never started: takes what is in the pipe at this moment,
  // and nothing of what others may write to it later.
  void stop();

  // All that it wrote; null if that was more than is kept.
  const std::string* whole() const { return passes_on_ ? nullptr : &bytes_; }

  // Writes what has not been passed on yet, and waits for whoever is slow to read it.
  // Whether all of it was written, here and before; if not, error() is the errno.
  bool print();
  int error() const { return error_; }

 private:
  void look();
  void take(std::size_t most);
  void add(const char* bytes, std::size_t size);
  void pass_on();
  void give_up();
  void watch();
  std::size_t left() const { return bytes_.size() - passed_; }

  std::size_t most_;
  Fd reading_;
  Fd writing_;
  // An epoll instance of our own, watched in its turn while the command runs: for Asio to
  // watch a descriptor itself, that has to be non-blocking, for everybody who has it.
  Fd epoll_;
  std::optional<Readable> poll_;
  bool blocks_ = true;  // standard output can make us wait; a file cannot
  std::string bytes_;
  std::size_t passed_ = 0;  // of these
  bool passes_on_ = false;
  bool failed_ = false;  // standard output takes no more
  int error_ = 0;        // why
};

// Writes all of it to standard output, also where that was made non-blocking. False if
// that is not possible.
bool print_bytes(std::string_view bytes);

}  // namespace dlock
