// The process that the guardian forks to become the command.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "supervise/guardian_process.hpp"

namespace dlock {

// Runs in the guardian's child: waits until dlock lets it start, then execs the command.
// If that fails, it writes the reason to the page and exits. It also ends when the
// guardian does.
struct GuardianChild {
  const GuardianTask& task;
  pid_t guardian;
  int cgroup_to_enter = -1;  // -1: it was created inside, or there is none

  [[noreturn]] void run() const;

 private:
  void await_word() const;
  bool may_start() const;
  [[noreturn]] void fail(GuardianPage::Step step, int error, std::size_t path = 0) const;
};

}  // namespace dlock
