// How a command ended, for tests that only need some end.
#pragma once

#include "lock/store.hpp"

namespace dlock {

// That of a command that exited so after a second and a half.
inline RunEnd exit_with(int code) {
  RunEnd end;
  end.exit_code = code;
  end.outcome = "ran";
  end.duration = milliseconds(1500);
  return end;
}

}  // namespace dlock
