// This machine's name and processes, from /proc, and signals to them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlock {

// DLOCK_HOST, or else the name of this machine, when first asked for; or "(none)".
const std::string& host_name();

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t started = 0;  // nanoseconds of boot time, in steps of 10 ms
  bool is_dead = false;      // a zombie, or gone
  bool is_stopped = false;
};

// Some fields of /proc/PID/stat. Allocates nothing.
struct StatFields {
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  long long started_ticks = 0;  // since boot
  // Signals up to 31 that its first thread blocks, that it ignores, and that it has a
  // handler for; bit 0 is signal 1.
  unsigned long long blocked = 0;
  unsigned long long ignored = 0;
  unsigned long long caught = 0;
};
std::optional<StatFields> stat_fields(const char* text);

// Nothing if there is no such process, or no /proc.
std::optional<ProcessInfo> process_of(pid_t pid);

// Whether the process has exited or is a zombie; false if the kernel does not tell.
bool has_ended(pid_t pid);

// All processes that /proc shows to this user.
std::vector<ProcessInfo> all_processes();

// The wait(2) status of a child that has ended, or 0 if there is none. The child stays a
// zombie, because reaping it takes the kernel 50 µs and more.
int wait_status_of(pid_t child);

// Waits for a child to end and reaps it. Returns its wait(2) status, or 0 if there is no
// such child.
int reap(pid_t child);

// Waits for all children in that process group to end, and reaps them.
void reap_group(pid_t group);

// The names in a directory, without . and ..; none if it cannot be read.
std::vector<std::string> entries_of(const std::string& directory);

// The content of a file in /proc; empty if it cannot be read.
std::string text_of(const std::string& path);

// A descriptor that becomes readable when the process ends, close-on-exec; -1 with
// errno (ESRCH: there is none; ENOSYS: before Linux 5.3).
int open_pidfd(pid_t pid);

// Sends a signal to the process that the pidfd refers to, and never to a later one with
// the same pid. Returns false with errno (EPERM: another user's; ESRCH: it has ended).
bool send_signal(int pidfd, int signal);

// From now on this process does not preempt others when it is woken (SCHED_BATCH): for
// the cleanup at its end. Does nothing if the process was started with another policy
// than the default, or under a filter of system calls.
void use_batch_scheduling();

}  // namespace dlock
