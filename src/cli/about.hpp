// Failures of a verb that is about one lock, limit or resource, told with its name.
#pragma once

#include <string>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

// Returns what `work` returns. A Failure that it throws says first what it is about, as
// whatever else is said (Speaker).
template <typename Work>
auto about(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), printable(name, 255) + ": " + failure.what());
  }
}

}  // namespace dlock
