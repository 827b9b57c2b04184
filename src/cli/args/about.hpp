// Puts the name of the lock, limit or resource in front of a failure's message.
#pragma once

#include <string>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

// Returns what `work` returns. If it throws a Failure, throws one of the same kind whose
// message begins with `name`, in the form that Speaker uses for every other line.
template <typename Work>
auto about(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), printable_name(name) + ": " + failure.what());
  }
}

}  // namespace dlock
