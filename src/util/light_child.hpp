// A child process that costs no copy of this one, for what ends with exec.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace dlock {

// Starts a child that calls `run(argument)`, which has to end by exec or _exit. The two
// share their memory, errno too, until then, as with vfork(2), but this process goes on
// meanwhile: an exec that hangs (on a network file system) must not suspend it. So `run`
// makes system calls by raw_syscall(), allocates nothing, and this process keeps what it
// uses. One child at a time. Of two processors, and for sanitizers, it is a plain fork.
//
// Its pid, or -1 with errno. The pid is in `*pid` before the child runs, so that another
// process that has that memory knows of the child though this one is killed meanwhile.
//
// `cgroup`: a directory, in whose control group it is born, which no process can outrun
// and costs a tenth of a millisecond, where to move there costs 16; -1: that of this
// process. Fails with ENOSYS or EINVAL where that cannot be done.
pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid, int cgroup = -1);

// The same, but this process sleeps until the child has called exec or ended.
pid_t start_child_and_wait(void (*run)(void*), void* argument, int cgroup);

// Moves this process into the control group of that directory, where a child cannot be
// born there. That it cannot is not told: the sweep finds it all the same.
void enter_cgroup(int directory);

// A system call that leaves errno alone: what the kernel answers, -errno for a failure.
long raw_syscall(long number, std::intptr_t a = 0, std::intptr_t b = 0,
                 std::intptr_t c = 0, std::intptr_t d = 0, std::intptr_t e = 0);

}  // namespace dlock
