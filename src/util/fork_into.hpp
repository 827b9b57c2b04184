// fork(2), with what only clone3(2) can do.
#pragma once

#include <sys/types.h>

namespace dlock {

enum class ForkWait { none, until_exec };

// Forks: returns 0 in the child, its pid here, or -1 with errno. The child has to end by
// exec or _exit, and calls only functions that are async-signal-safe.
//
// The pid is in `*pid` before the child runs: where that is memory that others share,
// they know of the child even if this process is killed now. With ForkWait::until_exec
// this process sleeps until the child has called exec or ended.
//
// `cgroup`: a directory, in whose control group the child is born, which it cannot escape
// by being quick, and which costs a tenth of a millisecond, where a move costs 16; -1:
// that of this process. Fails with ENOSYS, EINVAL or EPERM where the kernel or a sandbox
// does not let us.
pid_t fork_into(int cgroup, pid_t* pid, ForkWait wait = ForkWait::none);

// Moves this process into the control group of that directory, where a child cannot be
// born there. That it cannot is not told: the sweep finds it all the same.
void enter_cgroup(int directory);

}  // namespace dlock
