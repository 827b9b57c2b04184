// Writes for a reader who may have stopped reading.
#pragma once

#include <chrono>
#include <string_view>

namespace dlock {

// Writes all of `text`, which to a pipe or a socket that is full takes no longer than
// `patience`; to others as long as it takes. False with errno if that is not possible
// (EAGAIN: nobody reads); a part of what is longer than PIPE_BUF may be written then.
// Whether others who share the descriptor wait is left as it is. May be called in the
// handler of a signal.
bool write_within(int fd, std::string_view text, std::chrono::milliseconds patience);

}  // namespace dlock
