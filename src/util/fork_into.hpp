// fork(2) with features of clone3(2).
#pragma once

#include <sys/types.h>

namespace dlock {

enum class ForkWait { none, until_exec };

// Forks. Returns 0 in the child, its pid in the parent, or -1 with errno. The child has
// to end with exec or _exit, and may call only async-signal-safe functions.
//
// The pid is stored in `*pid` before the child runs. If that is shared memory, other
// processes know of the child even if this process is killed at once. With
// ForkWait::until_exec the parent sleeps until the child has called exec or ended.
//
// `cgroup`: the directory of a control group in which the child is created, or -1 for
// that of this process. The child cannot escape by forking quickly. It costs a tenth of a
// millisecond, while moving a process costs 16. Fails with ENOSYS, EINVAL or EPERM where
// the kernel or a sandbox does not allow it.
pid_t fork_into(int cgroup, pid_t* pid, ForkWait wait = ForkWait::none);

// Moves this process into the control group of that directory, for systems where a child
// cannot be created there. A failure is not reported: the sweep still finds the process.
void enter_cgroup(int directory);

}  // namespace dlock
