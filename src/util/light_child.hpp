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
pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid);

// A system call that leaves errno alone: what the kernel answers, -errno for a failure.
long raw_syscall(long number, std::intptr_t a = 0, std::intptr_t b = 0,
                 std::intptr_t c = 0, std::intptr_t d = 0, std::intptr_t e = 0);

}  // namespace dlock
