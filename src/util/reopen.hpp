// Opens a pipe or a terminal once more.
#pragma once

#include "util/fd.hpp"

namespace dlock {

// Opens the pipe or the terminal of a descriptor again, non-blocking and for writing:
// O_NONBLOCK on the descriptor itself would affect every process that shares it. Nothing
// if that is not possible, for example for another user's pipe or terminal. May be called
// in a signal handler.
Fd reopen_to_write(int fd);

}  // namespace dlock
