// Calls a function when a scope is left, however it is left.
#pragma once

#include <utility>

namespace dlock {

// `leave` must not throw.
template <typename Leave>
class [[nodiscard]] OnExit {
 public:
  explicit OnExit(Leave leave) : leave_(std::move(leave)) {}
  ~OnExit() { leave_(); }
  OnExit(const OnExit&) = delete;
  OnExit& operator=(const OnExit&) = delete;

 private:
  Leave leave_;
};

}  // namespace dlock
