// The process that a guardian makes to become the command.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "supervise/guardian_process.hpp"

namespace dlock {

// Waits in the child of the guardian for dlock's word, and becomes the command. Where it
// cannot, the page says why, and it ends. It ends with the guardian, too.
struct GuardianChild {
  const GuardianTask& task;
  pid_t guardian;
  int cgroup_to_enter = -1;  // it was not born there

  [[noreturn]] void run() const;

 private:
  void await_word() const;
  bool may_start() const;
  [[noreturn]] void fail(GuardianPage::Step step, int error, std::size_t path = 0) const;
};

}  // namespace dlock
