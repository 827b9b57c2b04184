// Filters of system calls.
#pragma once

#include <sys/prctl.h>

namespace dlock {

// Whether a filter (seccomp) is in force, which may kill a process that sets its own
// priority, as SystemCallFilter=~@resources of systemd does.
inline bool has_call_filter() { return ::prctl(PR_GET_SECCOMP) > 0; }

}  // namespace dlock
