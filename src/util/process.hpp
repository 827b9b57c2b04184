// What /proc says of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlock {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t started = 0;  // nanoseconds of boot time, in steps of 10 ms
  bool is_dead = false;      // a zombie, or less
  bool is_stopped = false;
};

// Some fields of /proc/PID/stat. Allocates nothing.
struct StatFields {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long started_ticks = 0;  // since boot
  unsigned long long caught = 0;         // signals up to 31 with a handler, from bit 0 on
};
std::optional<StatFields> stat_fields(const char* text);

// Nothing if there is no such process, or no /proc.
std::optional<ProcessInfo> process_of(pid_t pid);

// Whether the process is gone or a zombie; false where the kernel cannot say.
bool has_ended(pid_t pid);

// All that /proc shows to this user.
std::vector<ProcessInfo> all_processes();

// What wait(2) would say of a child that has ended, or 0 if there is none. It stays a
// zombie: to free that takes the kernel 50 µs and more.
int wait_status_of(pid_t child);

// Waits for the end of a child: what wait(2) says of it, or 0 if there is no such child.
int reap(pid_t child);

// Waits for the end of all children in that process group.
void reap_group(pid_t group);

// The names in a directory, without . and ..; none if it cannot be read.
std::vector<std::string> entries_of(const std::string& directory);

// As much of a file of /proc as there is; empty if it cannot be read.
std::string text_of(const std::string& path);

// A descriptor that becomes readable when the process ends, close-on-exec; -1 with
// errno (ESRCH: there is none; ENOSYS: before Linux 5.3).
int open_pidfd(pid_t pid);

// Sends a signal to the process that a pidfd was opened for, and to no later one of the
// same pid. False with errno (EPERM: another user's; ESRCH: it has ended).
bool send_signal(int pidfd, int signal);

// From now on this process, when it is woken, does not push aside what runs just then
// (SCHED_BATCH): for what only clears up behind itself. One that was started with another
// policy than the usual one keeps that.
void use_batch_scheduling();

}  // namespace dlock
