#include "supervise/process_scan.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "util/text.hpp"

namespace dlock {
namespace {

// Processes beyond this number are found once others have ended.
constexpr std::size_t most_processes = 32'768;
constexpr std::size_t most_children = 8'192;

// Untouched memory costs nothing.
ScannedProcess processes[most_processes];
pid_t children_found[most_children];
char text[65'536];

// The record of getdents64(2).
struct DirectoryRecord {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[1];
};
// Beside the other large arrays. As a static variable of the function that uses it, the
// linker placed it between small variables, and each run touched one more page.
alignas(DirectoryRecord) char entries[32'768];

// Reads the state of `process.pid` from /proc; false if it is not alive.
bool look_up(int proc, ScannedProcess& process) {
  char path[32];
  std::memcpy(path + decimal(process.pid, path).size(), "/stat", sizeof "/stat");
  const Fd file(::openat(proc, path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  char stat[512];
  const auto size = ::read(file.get(), stat, sizeof stat - 1);
  if (size <= 0) return false;
  stat[size] = '\0';
  const auto fields = stat_fields(stat);
  if (!fields || fields->state == 'X') return false;
  // Otherwise only its first thread has ended.
  if (fields->state == 'Z' && has_ended(process.pid)) return false;
  process.StatFields::operator=(*fields);
  return true;
}

// Calls `found` with each pid in /proc.
template <typename Found>
void for_each_pid(int proc, Found found) {
  if (::lseek(proc, 0, SEEK_SET) != 0) return;
  for (;;) {
    const auto size = ::syscall(SYS_getdents64, proc, entries, sizeof entries);
    if (size <= 0) return;
    for (long at = 0; at < size;) {
      DirectoryRecord entry;
      std::memcpy(&entry, entries + at, offsetof(DirectoryRecord, name));
      const auto pid = std::atoi(entries + at + offsetof(DirectoryRecord, name));
      if (pid > 0 && !found(static_cast<pid_t>(pid))) return;
      at += entry.size;
    }
  }
}

}  // namespace

bool mark_descendants(ScannedProcess* all, std::size_t count, pid_t root,
                      const std::set<pid_t>* strangers) {
  const auto by_number = [](const ScannedProcess& a, const ScannedProcess& b) {
    return a.pid < b.pid;
  };
  if (!std::is_sorted(all, all + count, by_number)) {
    std::sort(all, all + count, by_number);
  }
  const auto* end = all + count;
  const auto parent_of = [&](const ScannedProcess& process) {
    ScannedProcess wanted;
    wanted.pid = process.parent;
    const auto* found = std::lower_bound(all, all + count, wanted, by_number);
    return found != end && found->pid == process.parent ? found : end;
  };
  bool is_complete = true;
  // Pids wrap around, so a child can precede its parent: repeat until nothing changes.
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < count; ++i) {
      auto& process = all[i];
      if (process.is_ours) continue;
      const auto* parent = parent_of(process);
      const bool has_root = process.parent == root;
      // The first process of the system does not end, but may be invisible.
      if (parent == end && !has_root && process.parent > 1) is_complete = false;
      const bool is_stranger =
          has_root && strangers != nullptr && strangers->count(process.pid) > 0;
      const bool is_child = has_root && !is_stranger;
      const bool is_below = parent != end && parent->is_ours;
      if (!is_below && !is_child) continue;
      process.is_ours = grew = true;
      if (!is_below) continue;
      process.parent_started = parent->started_ticks;
      process.handled_above = parent->caught | parent->blocked | parent->handled_above;
    }
  }
  return is_complete;
}

ChildState state_of_child(pid_t pid) {
  siginfo_t info{};
  const int which = WEXITED | WSTOPPED | WNOHANG | WNOWAIT;
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, which) != 0) return ChildState::none;
  if (info.si_pid == 0) return ChildState::lives;
  return info.si_code == CLD_STOPPED ? ChildState::stopped : ChildState::ended;
}

bool ProcessScan::open() {
  is_open_ = true;
  proc_ = Fd(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!proc_) {
    if (errno == ENOENT || errno == ENOTDIR) errno = 0;
    return false;
  }
  char is[16];
  char wanted[16];
  const auto size =
      std::max(::readlinkat(proc_.get(), "self", is, sizeof is), ssize_t{0});
  if (std::string_view(is, static_cast<std::size_t>(size)) !=
      decimal(::getpid(), wanted)) {
    proc_.reset();
    errno = 0;
    return false;
  }
  // There is only one thread, so one list.
  children_ = Fd(::openat(proc_.get(), "thread-self/children", O_RDONLY | O_CLOEXEC));
  return children_ || errno == ENOENT;  // not every kernel has the list
}

bool ProcessScan::is_stranger(pid_t pid) const {
  return strangers_ != nullptr && strangers_->count(pid) > 0;
}

ProcessScan::Children ProcessScan::children() {
  if (!is_open_) open();
  Children found{children_found, 0, true};
  std::size_t size = 0;
  bool is_listed = static_cast<bool>(children_);
  while (is_listed && size < sizeof text - 1) {
    const auto more = ::pread(children_.get(), text + size, sizeof text - 1 - size,
                              static_cast<off_t>(size));
    if (more < 0) is_listed = false;
    if (more <= 0) break;
    // A list that is read in pieces can change in between.
    if (size > 0) found.is_all = false;
    size += static_cast<std::size_t>(more);
  }
  if (is_listed) {
    text[size] = '\0';
    const char* at = text;
    while (*at != '\0') {
      char* end = nullptr;
      const auto pid = std::strtol(at, &end, 10);
      // The last number may be truncated.
      if (end == at || *end == '\0' || found.count == most_children) {
        found.is_all = false;
        break;
      }
      at = end + 1;
      if (is_stranger(static_cast<pid_t>(pid))) continue;
      children_found[found.count++] = static_cast<pid_t>(pid);
    }
    return found;
  }
  for_each_pid(proc_.get(), [&](pid_t pid) {
    ScannedProcess process;
    process.pid = pid;
    if (look_up(proc_.get(), process) && process.parent == ::getpid() &&
        !is_stranger(pid)) {
      children_found[found.count++] = pid;
    }
    return found.count < most_children;
  });
  return found;
}

ProcessScan::Processes ProcessScan::all() {
  if (!is_open_) open();
  std::size_t count = 0;
  for_each_pid(proc_.get(), [&](pid_t pid) {
    processes[count] = {};
    processes[count].pid = pid;
    if (look_up(proc_.get(), processes[count])) ++count;
    return count < most_processes;
  });
  const bool is_complete = mark_descendants(processes, count, ::getpid(), strangers_);
  return {processes, count, is_complete};
}

bool ProcessScan::is_empty(pid_t keep) {
  for (;;) {
    const auto found = children();
    bool any = false;
    bool reaped = false;
    for (std::size_t i = 0; i < found.count; ++i) {
      const auto child = found.first[i];
      if (child == keep) continue;
      const auto ended = ::waitpid(child, nullptr, WNOHANG);
      // A pid that is not our child's was read in another namespace.
      if (ended == child) reaped = true;
      if (ended == 0) any = true;
    }
    if (any) return false;
    // A process that has ended since the list was read may have left its children to us.
    if (!reaped) return found.is_all;
  }
}

bool ProcessScan::is_shown(pid_t pid) const {
  ScannedProcess process;
  process.pid = pid;
  return look_up(proc_.get(), process);
}

int ProcessScan::send(const ScannedProcess& process, int signal) const {
  const Fd target(open_pidfd(process.pid));
  // Otherwise an old kernel, or a filter of system calls.
  const bool can_open = target || (errno != ENOSYS && errno != EPERM);
  if (!target && errno == ESRCH) return ESRCH;
  // The pid may have been reused between the scan and pidfd_open, and so may the
  // parent's.
  ScannedProcess now;
  now.pid = process.pid;
  if (!look_up(proc_.get(), now) || now.started_ticks != process.started_ticks)
    return ESRCH;
  if (now.parent != ::getpid()) {
    ScannedProcess parent;
    parent.pid = now.parent;
    if (now.parent != process.parent || !look_up(proc_.get(), parent) ||
        parent.started_ticks != process.parent_started) {
      return ESRCH;
    }
  }
  if (target) {
    if (send_signal(target.get(), signal)) return 0;
    if (errno != ENOSYS && errno != EPERM) return errno;
  }
  // No descriptor is left: the process is found again when its parent has ended.
  if (can_open && now.parent != ::getpid()) return ESRCH;
  return ::kill(process.pid, signal) == 0 ? 0 : errno;
}

}  // namespace dlock
