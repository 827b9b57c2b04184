// Writes to a reader that may have stopped reading.
#pragma once

#include <chrono>
#include <string_view>

namespace dlock {

// Writes all of `text`. If the descriptor is a full pipe or socket, or a terminal that
// accepts nothing (Ctrl-S), waits for at most `patience`; other descriptors may block for
// longer. Returns false with errno on failure (EAGAIN: nobody reads); a part of a text
// longer than PIPE_BUF, or for a terminal of any text, may have been written then. Does
// not change whether the descriptor blocks for other processes. May be called in a signal
// handler.
bool write_within(int fd, std::string_view text, std::chrono::milliseconds patience);

}  // namespace dlock
