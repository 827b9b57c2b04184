// dlock run: hold a lock while a command runs.
#pragma once

#include <optional>

#include "cli/app.hpp"

namespace dlock {

// How dlock itself ends.
struct Exit {
  int code = 0;
  std::optional<int> by_signal;
};

Exit run_verb(const Invocation& invocation);

}  // namespace dlock
