#include "store/local/sessions.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "util/bits.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr const char* sessions_name = "sessions";

constexpr off_t watch_byte = 2;  // shared by all watchers

static_assert(last_session == Session{all_locks_mutex});

// Two locks rarely have the same range of sessions, and then one of them waits for the
// end of the other's runs, but only if its file was removed.
constexpr Session sessions_of_lock = Session{1} << 32u;

Session first_session_of(const LockName& lock) {
  constexpr Session ranges = (last_session - first_session) / sessions_of_lock;
  const auto hash = checksum(lock.name_space + '\0' + lock.name);
  return first_session + hash % ranges * sessions_of_lock;
}

constexpr std::int64_t tick = 10'000'000;  // /proc counts in hundredths of a second

struct flock byte_range(short type, off_t start, off_t length = 1) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  return range;
}

struct flock mutex_range(short type, MutexByte byte) {
  return byte_range(type, byte, byte == all_locks_mutex ? 0 : 1);  // 0: all that follow
}

// Throws the Failure for a lock of a byte that was not possible.
[[noreturn]] void fail_to_lock(int error, const std::string& path) {
  const auto what = "cannot lock " + printable(path);
  switch (error) {
    case EAGAIN:
    case EACCES:
      throw Transient(Failure::Kind::unreachable,
                      what + ": another process has locked all of it");
    case ENOLCK:
      throw Transient(Failure::Kind::unreachable,
                      what + ": the kernel has no room for another lock");
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
      throw Failure::misconfigured(
          what + ": " + std::strerror(error) +
          " (locks of open files, F_OFD_SETLK, do not work there); use a "
          "directory on a local disk, or a server");
    default: throw_failure_of(error, what);
  }
}

// fcntl(2), again if a signal interrupts it. Returns an error number, or 0.
int locked(int fd, struct flock range) {
  while (::fcntl(fd, F_OFD_SETLK, &range) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Whether the command of `holder` runs, as far as /proc shows: some commands (sudo,
// daemons) close unknown descriptors, and with them the session. The start time
// distinguishes a later process with the same pid.
bool command_runs(const Holder& holder) {
  if (holder.command <= 0 || holder.party.pid_namespace != own_namespaces().pids) {
    return false;
  }
  const auto process = process_of(holder.command);
  // If it cannot be read (no descriptors left, processes hidden), it may still be alive.
  if (!process) return !has_ended(holder.command);
  if (process->is_dead) return false;
  return process->started >= holder.command_after - tick &&
         process->started <= holder.command_before + tick;
}

// Whether the dlock of `holder` runs, as far as /proc shows.
bool dlock_runs(const Holder& holder) {
  if (holder.party.pid_namespace != own_namespaces().pids ||
      holder.party.pid == ::getpid()) {
    return false;
  }
  const auto process = process_of(holder.party.pid);
  return process && !process->is_dead &&
         process->started <= holder.granted_at.time_since_epoch().count() + tick;
}

// Whether the initial environment of a process contains this grant (DLOCK_HELD,
// "NAME=FENCE NAME=FENCE").
bool runs_under(pid_t pid, Fence fence) {
  constexpr std::string_view variable("\0DLOCK_HELD=", 12);
  const auto text = '\0' + text_of("/proc/" + std::to_string(pid) + "/environ");
  const auto at = text.find(variable);
  if (at == std::string::npos) return false;
  const auto begin = at + variable.size();
  const auto held = text.substr(begin, text.find('\0', begin) - begin) + ' ';
  return held.find('=' + std::to_string(fence.number) + ' ') != std::string::npos;
}

bool is_stopped(pid_t pid) {
  const auto process = process_of(pid);
  return process && process->is_stopped;
}

// Reading /proc/self/ns takes longer than a change of a lock, because the kernel creates
// the entries on demand. Since Linux 6.11 a pidfd provides the same faster.
std::uint64_t number_of(const Fd& process, unsigned long request, const char* name) {
  struct stat status {};
  const Fd name_space(process ? ::ioctl(process.get(), request, 0) : -1);
  if (name_space && ::fstat(name_space.get(), &status) == 0) return status.st_ino;
  return ::stat(name, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

SessionLock::SessionLock(const Directory& directory, const LockName& lock,
                         const Token& token) {
  const Fd low = directory.open_file(sessions_name, O_RDWR, true);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // Near the usual limit of 1024, where shells and daemons use no descriptors.
  const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1024));
  fd_ = Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, std::max(end - 24, 3)));
  if (!fd_) throw failure_of(errno, "cannot open a session");
  int error = 0;
  // Another claim may have the same number by chance.
  for (std::size_t at = 0; at < token.bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t number = 0;
    std::memcpy(&number, token.bytes.data() + at, sizeof number);
    session_ = first_session_of(lock) + number;
    error = locked(fd_.get(), byte_range(F_WRLCK, static_cast<off_t>(session_)));
    if (error == 0) return;
  }
  fail_to_lock(error, directory.path_of(sessions_name));
}

Fd watch_mark(const Directory& directory) {
  Fd mark = directory.open_file(sessions_name, O_RDWR, true);
  const int error = locked(mark.get(), byte_range(F_RDLCK, watch_byte));
  if (error != 0) fail_to_lock(error, directory.path_of(sessions_name));
  return mark;
}

SessionsFile::SessionsFile(const Directory& directory, bool create) {
  struct stat status {};
  fd_ = directory.open_file(sessions_name, create ? O_RDWR : O_RDONLY, create, &status);
  identity_ = identity_of(status);
  changed_ = WallTime(std::chrono::seconds(status.st_mtim.tv_sec));
}

bool SessionsFile::is_in_place(const Directory& directory) const {
  return leads_to(directory.fd(), sessions_name, identity_);
}

bool SessionsFile::try_lock(MutexByte byte) {
  const int error = locked(fd_.get(), mutex_range(F_WRLCK, byte));
  if (error == 0) return true;
  if (error == EAGAIN || error == EACCES) return false;
  fail_to_lock(error, sessions_name);
}

void SessionsFile::unlock(MutexByte byte) {
  auto range = mutex_range(F_UNLCK, byte);
  ::fcntl(fd_.get(), F_OFD_SETLK, &range);
}

pid_t SessionsFile::owner_of(MutexByte byte) const {
  for (const auto& process : all_processes()) {
    if (process.pid != ::getpid() && is_locked_by(process.pid, byte)) return process.pid;
  }
  return 0;
}

// The kernel reports no owner for locks of this kind, but /proc/PID/fdinfo lists the
// locks of each description: "lock:\t1: OFDLCK  ADVISORY  WRITE -1 08:02:1234 0 0".
bool SessionsFile::is_locked_by(pid_t pid, off_t byte) const {
  char place[64];
  std::snprintf(place, sizeof place, " %02x:%02x:%llu ", major(identity_.device),
                minor(identity_.device),
                static_cast<unsigned long long>(identity_.number));
  const auto directory = "/proc/" + std::to_string(pid) + "/fdinfo";
  for (const auto& name : entries_of(directory)) {
    const auto text = text_of(directory + "/" + name);
    for (auto at = text.find("OFDLCK"); at != std::string::npos;
         at = text.find("OFDLCK", at + 1)) {
      const auto line = text.substr(at, text.find('\n', at) - at);
      const auto range = line.find(place);
      long long first = 0;
      long long last = LLONG_MAX;  // "EOF"
      if (range != std::string::npos &&
          std::sscanf(line.c_str() + range + std::strlen(place), "%lld %lld", &first,
                      &last) >= 1 &&
          first <= byte && byte <= last) {
        return true;
      }
    }
  }
  return false;
}

std::vector<Fd> SessionsFile::processes_of(const Holder& holder) const {
  std::vector<Fd> found;
  if (!is_session(holder.party.session)) return found;
  const auto is_of_run = [&](pid_t pid) {
    return is_locked_by(pid, static_cast<off_t>(holder.party.session)) &&
           runs_under(pid, holder.fence);
  };
  for (const auto& process : all_processes()) {
    if (!is_of_run(process.pid)) continue;
    Fd opened(open_pidfd(process.pid));
    if (!opened && (errno == ENOSYS || errno == EPERM)) {
      throw failure_of_call(
          errno, "cannot stop the command (pid " + std::to_string(process.pid) + ")",
          "pidfd_open");
    }
    // Checked again: the pid may have been reused before the pidfd was opened.
    if (opened && is_of_run(process.pid)) found.push_back(std::move(opened));
  }
  return found;
}

bool SessionsFile::is_locked(Session session) const {
  auto range = byte_range(F_RDLCK, static_cast<off_t>(session));
  // After an error the session may still be alive.
  return ::fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

bool SessionsFile::has_sessions() const {
  auto range = byte_range(F_WRLCK, static_cast<off_t>(first_session),
                          static_cast<off_t>(last_session - first_session));
  return ::fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

bool SessionsFile::is_in_use(const LockName& lock, Session own) const {
  const auto first = first_session_of(lock);
  const auto last = first + sessions_of_lock;
  const auto is_used = [&](Session from, Session to) {
    if (from >= to) return false;
    auto range =
        byte_range(F_WRLCK, static_cast<off_t>(from), static_cast<off_t>(to - from));
    return ::fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
  };
  if (own == 0) return is_used(first, last);
  return is_used(first, own) || is_used(own + 1, last);
}

bool SessionsFile::is_watched() const {
  auto range = byte_range(F_WRLCK, watch_byte);
  return ::fcntl(fd_.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

// The last two find those whose sessions are locked in another file: this one was
// removed, and created again.
bool SessionsFile::is_alive(const Holder& holder) const {
  return is_locked(holder.party.session) || command_runs(holder) || dlock_runs(holder);
}

bool SessionsFile::is_alive(const Waiter& waiter) const {
  return is_locked(waiter.party.session);
}

// The pid namespace is compared last, because waiters are hardly ever stopped.
bool SessionsFile::is_stopped(const Waiter& waiter) const {
  return local::is_stopped(waiter.party.pid) &&
         waiter.party.pid_namespace == own_namespaces().pids;
}

bool dlock_is_gone(const Holder& holder) {
  if (holder.party.pid_namespace != own_namespaces().pids) return false;
  if (has_ended(holder.party.pid)) return true;
  const auto process = process_of(holder.party.pid);
  return process &&
         process->started > holder.granted_at.time_since_epoch().count() + tick;
}

Failure mutex_unavailable(const SessionsFile& sessions, MutexByte byte,
                          milliseconds waited) {
  std::string who = "another process";
  if (const auto pid = sessions.owner_of(byte); pid > 0) {
    who = "process " + std::to_string(pid);
    if (is_stopped(pid)) who += " (stopped: kill -CONT " + std::to_string(pid) + ")";
  }
  return Failure::unreachable("the store has been kept busy for " + for_people(waited) +
                              " by " + who);
}

const Namespaces& own_namespaces() {
  // PIDFD_GET_PID_NAMESPACE and PIDFD_GET_TIME_NAMESPACE of linux/pidfd.h.
  constexpr unsigned long get_pids = _IO(0xFF, 5);
  constexpr unsigned long get_time = _IO(0xFF, 7);
  static const Namespaces own = [] {
    const Fd process(open_pidfd(::getpid()));
    return Namespaces{number_of(process, get_pids, "/proc/self/ns/pid"),
                      number_of(process, get_time, "/proc/self/ns/time")};
  }();
  return own;
}

std::string boot_id() {
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file && (errno == EMFILE || errno == ENFILE)) {
    throw failure_of(errno, "cannot read the boot id");
  }
  char text[64];
  const auto size = file ? ::read(file.get(), text, sizeof text) : -1;
  constexpr std::string_view digits = "0123456789abcdef-";
  if (size < 36 ||
      std::string_view(text, 36).find_first_not_of(digits) != std::string_view::npos) {
    throw Failure::misconfigured(
        "cannot read the boot id from /proc: the embedded store needs it; mount "
        "/proc, and without subset=pid, or use a server");
  }
  return std::string(text, 36);
}

const std::string& own_epoch() {
  // The kernel's number for the time namespace that a machine starts with
  // (PROC_TIME_INIT_INO).
  constexpr std::uint64_t first_time_namespace = 0xEFFFFFFA;
  // A process sees one boot only, and dlock changes no namespaces.
  static const std::string epoch = [] {
    const auto time = own_namespaces().time;
    const bool is_usual = time == 0 || time == first_time_namespace;
    return boot_id() + (is_usual ? "" : "-time-" + std::to_string(time));
  }();
  return epoch;
}

namespace {

constexpr const char* state_folder_prefix = "state-";

}  // namespace

std::string state_folder_name() { return state_folder_prefix + own_epoch(); }

bool is_state_folder_name(const std::string& name) {
  return name.starts_with(state_folder_prefix);
}

std::optional<Directory> open_state_folder(const Directory& directory) {
  return directory.folder(state_folder_name(), Directory::Missing::accept);
}

}  // namespace dlock::local
