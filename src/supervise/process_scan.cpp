#include "supervise/process_scan.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "util/fd.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

// More than these at a time are found when some of them are gone.
constexpr std::size_t most_processes = 32'768;
constexpr std::size_t most_children = 8'192;

// Untouched memory costs nothing.
ScannedProcess processes[most_processes];
pid_t children_found[most_children];
char text[65'536];

// As getdents64(2) has it.
struct Entry {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[1];
};

// Fills in what /proc says of `process.pid`; whether it lives.
bool look_up(ScannedProcess& process) {
  char path[32] = "/proc/";
  char* end = path + std::strlen(path);
  char digits[16];
  char* first = std::end(digits);
  for (auto pid = process.pid; pid > 0; pid /= 10) {
    *--first = static_cast<char>('0' + pid % 10);
  }
  const auto count = static_cast<std::size_t>(std::end(digits) - first);
  std::memcpy(end, first, count);
  std::memcpy(end + count, "/stat", sizeof "/stat");
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  char stat[512];
  const auto size = ::read(file.get(), stat, sizeof stat - 1);
  if (size <= 0) return false;
  stat[size] = '\0';
  const auto fields = stat_fields(stat);
  if (!fields || fields->state == 'X') return false;
  // Or only its first thread has ended.
  if (fields->state == 'Z' && has_ended(process.pid)) return false;
  process.parent = fields->parent;
  process.group = fields->group;
  process.started = static_cast<std::int64_t>(fields->started_ticks);
  process.caught = fields->caught;
  return true;
}

// Calls `found` with each number in /proc.
template <typename Found>
void for_each_pid(Found found) {
  const Fd directory(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return;
  alignas(Entry) static char entries[32'768];
  for (;;) {
    const auto size = ::syscall(SYS_getdents64, directory.get(), entries, sizeof entries);
    if (size <= 0) return;
    for (long at = 0; at < size;) {
      Entry entry;
      std::memcpy(&entry, entries + at, offsetof(Entry, name));
      const auto pid = std::atoi(entries + at + offsetof(Entry, name));
      if (pid > 0 && !found(static_cast<pid_t>(pid))) return;
      at += entry.size;
    }
  }
}

// Marks what descends from this process, but for some.
template <typename IsStranger>
void mark_ours(ScannedProcess* all, std::size_t count, IsStranger is_stranger) {
  const auto self = ::getpid();
  const auto by_number = [](const ScannedProcess& a, const ScannedProcess& b) {
    return a.pid < b.pid;
  };
  if (!std::is_sorted(all, all + count, by_number)) {
    std::sort(all, all + count, by_number);
  }
  // Null if that is not known to be ours.
  const auto parent_of = [&](const ScannedProcess& process) -> const ScannedProcess* {
    ScannedProcess wanted;
    wanted.pid = process.parent;
    const auto* found = std::lower_bound(all, all + count, wanted, by_number);
    const bool is_found = found != all + count && found->pid == process.parent;
    return is_found && found->is_ours ? found : nullptr;
  };
  // Numbers wrap around, so a child can stand before its parent: until nothing new.
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < count; ++i) {
      auto& process = all[i];
      if (process.is_ours) continue;
      const auto* parent = parent_of(process);
      const bool is_child = process.parent == self && !is_stranger(process.pid);
      if (parent == nullptr && !is_child) continue;
      process.is_ours = grew = true;
      if (parent != nullptr) process.caught_above = parent->caught | parent->caught_above;
    }
  }
}

}  // namespace

void ProcessScan::open() {
  // One thread, so one list.
  children_ = Fd(::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC));
}

bool ProcessScan::is_stranger(pid_t pid) const {
  return strangers_ != nullptr && strangers_->count(pid) > 0;
}

ProcessScan::Children ProcessScan::children() {
  Children found{children_found, 0, true};
  std::size_t size = 0;
  bool is_listed = static_cast<bool>(children_);
  while (is_listed && size < sizeof text - 1) {
    const auto more = ::pread(children_.get(), text + size, sizeof text - 1 - size,
                              static_cast<off_t>(size));
    if (more < 0) is_listed = false;
    if (more <= 0) break;
    // What comes in pieces can change in between.
    if (size > 0) found.is_all = false;
    size += static_cast<std::size_t>(more);
  }
  if (is_listed) {
    text[size] = '\0';
    const char* at = text;
    while (*at != '\0') {
      char* end = nullptr;
      const auto pid = std::strtol(at, &end, 10);
      // What stands at the very end may be cut off.
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
  for_each_pid([&](pid_t pid) {
    ScannedProcess process;
    process.pid = pid;
    if (look_up(process) && process.parent == ::getpid() && !is_stranger(pid)) {
      children_found[found.count++] = pid;
    }
    return found.count < most_children;
  });
  return found;
}

ProcessScan::Processes ProcessScan::all() {
  std::size_t count = 0;
  for_each_pid([&](pid_t pid) {
    processes[count] = {};
    processes[count].pid = pid;
    if (look_up(processes[count])) ++count;
    return count < most_processes;
  });
  mark_ours(processes, count, [this](pid_t pid) { return is_stranger(pid); });
  return {processes, count};
}

bool is_shown(pid_t pid) {
  ScannedProcess process;
  process.pid = pid;
  return look_up(process);
}

int signal_scanned(const ScannedProcess& process, int signal) {
  const Fd target(open_pidfd(process.pid));
  if (!target) {
    if (errno == ESRCH) return ESRCH;
    return ::kill(process.pid, signal) == 0 ? 0 : errno;  // no pidfds here
  }
  // The number may have passed to another between the scan and the opening.
  ScannedProcess now;
  now.pid = process.pid;
  if (!look_up(now) || now.started != process.started) return ESRCH;
  return ::syscall(SYS_pidfd_send_signal, target.get(), signal, nullptr, 0) == 0 ? 0
                                                                                 : errno;
}

}  // namespace dlock
