#include "util/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "util/call_filter.hpp"
#include "util/fd.hpp"

namespace dlock {
namespace {

struct CloseDirectory {
  void operator()(DIR* entries) const { ::closedir(entries); }
};

}  // namespace

int open_pidfd(pid_t pid) {
  // glibc has a wrapper only since version 2.36.
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

bool send_signal(int pidfd, int signal) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

void use_batch_scheduling() {
  if (has_call_filter()) return;
  const sched_param none{};
  if (::sched_getscheduler(0) == SCHED_OTHER) ::sched_setscheduler(0, SCHED_BATCH, &none);
}

bool has_ended(pid_t pid) {
  const Fd process(open_pidfd(pid));
  // Without the call, what has ended and was not reaped counts as alive.
  if (!process) return errno == ESRCH || (::kill(pid, 0) != 0 && errno == ESRCH);
  // Not from /proc: a process whose first thread has ended looks like a zombie there
  // while other threads still run.
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1;
}

int wait_status_of(pid_t child) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return 0;
  }
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
                                    : W_EXITCODE(0, info.si_status);
}

int reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void reap_group(pid_t group) {
  while (::waitpid(-group, nullptr, 0) > 0 || errno == EINTR) {
  }
}

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> entries(::opendir(directory.c_str()));
  if (!entries) return names;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

std::string text_of(const std::string& path) {
  std::string text;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  while (file) {
    const auto size = ::read(file.get(), buffer, sizeof buffer);
    if (size <= 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> all;
  for (const auto& name : entries_of("/proc")) {
    const auto pid = static_cast<pid_t>(std::atoi(name.c_str()));
    if (pid <= 0) continue;
    if (const auto process = process_of(pid)) all.push_back(*process);
  }
  return all;
}

std::optional<StatFields> stat_fields(const char* text) {
  // The name in parentheses may contain anything, including parentheses.
  const char* rest = std::strrchr(text, ')');
  if (rest == nullptr) return std::nullopt;
  StatFields fields;
  // Fields 3 to 5, 22 and 32 to 34 of proc(5).
  if (std::sscanf(rest + 1,
                  " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                  "%*d %*d %lld %*u %*d %*u %*u %*u %*u %*u %*u %*u %llu %llu %llu",
                  &fields.state, &fields.parent, &fields.group, &fields.started_ticks,
                  &fields.blocked, &fields.ignored, &fields.caught) < 4) {
    return std::nullopt;
  }
  return fields;
}

std::optional<ProcessInfo> process_of(pid_t pid) {
  const auto text = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto fields = stat_fields(text.c_str());
  if (!fields) return std::nullopt;

  ProcessInfo info;
  info.pid = pid;
  info.parent = fields->parent;
  info.group = fields->group;
  const char state = fields->state;
  info.started = fields->started_ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  info.is_dead = state == 'X' || state == 'x' || (state == 'Z' && has_ended(pid));
  info.is_stopped = state == 'T' || state == 't';
  return info;
}

const std::string& host_name() {
  static const std::string name = [] {
    const char* given = std::getenv("DLOCK_HOST");
    if (given != nullptr && *given != '\0') return std::string(given);
    char text[256] = "";
    ::gethostname(text, sizeof text - 1);
    return std::string(*text == '\0' ? "(none)" : text);
  }();
  return name;
}

}  // namespace dlock
