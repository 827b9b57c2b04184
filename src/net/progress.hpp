// The result of a non-blocking read or write.
#pragma once

#include <cstddef>

#include "net/readiness.hpp"

namespace dlock::net {

struct Progress {
  enum class State { done, wants_to_read, wants_to_write, failed };

  State state;
  std::size_t size = 0;  // bytes read (0: closed by the peer) or written
  int error = 0;         // errno, if it failed

  Readiness::For awaited() const {
    return state == State::wants_to_read ? Readiness::For::reading
                                         : Readiness::For::writing;
  }
};

}  // namespace dlock::net
