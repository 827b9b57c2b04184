// Writes to a descriptor whose reader may be slow, or may have stopped reading.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>

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

}  // namespace dlock
