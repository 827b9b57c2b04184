#include "store/local/sessions.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lock/errors.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

constexpr const char* sessions_name = "sessions";

// Who has which byte locked.
constexpr off_t state_byte = 0;      // changes the state
constexpr off_t registers_byte = 1;  // changes the registers
constexpr off_t watch_byte = 2;      // watches, together with others
constexpr Session first_session = 1u << 16;

constexpr std::int64_t tick = 10'000'000;  // /proc counts in hundredths of a second

struct flock byte_range(short type, off_t start) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = 1;
  return range;
}

Failure lock_failure(const Directory& directory) {
  const int error = errno;
  return Failure(Failure::Kind::misconfigured,
                 "cannot lock " + printable(directory.path_of(sessions_name)) + ": " +
                     std::strerror(error));
}

// Whether the command of `holder` runs, as far as /proc can say from here: some
// commands close descriptors they do not know (sudo, daemons), and with them the session.
// A later process of the same pid started at another time.
bool command_runs(const Holder& holder) {
  if (holder.command <= 0 || holder.party.pid_namespace != own_pid_namespace()) {
    return false;
  }
  const auto process = process_of(holder.command);
  // That it cannot be read (no descriptors left, processes hidden) is no proof of death.
  if (!process) return !has_ended(holder.command);
  if (process->is_dead) return false;
  return process->started >= holder.command_after - tick &&
         process->started <= holder.command_before + tick;
}

bool is_stopped(pid_t pid) {
  const auto process = process_of(pid);
  return process && process->is_stopped;
}

}  // namespace

Session session_of(const Token& token) {
  Session number = 0;
  std::memcpy(&number, token.bytes.data(), sizeof number);
  // Offsets are signed, and a byte needs one more than its own.
  constexpr Session most = (Session{1} << 62) - 1;
  return first_session + number % (most - first_session);
}

std::uint64_t own_pid_namespace() {
  struct stat status {};
  // The kernel makes the entries of /proc for each process anew when it looks there,
  // which takes longer than a transaction. From Linux 6.11 on a pidfd answers, too
  // (PIDFD_GET_PID_NAMESPACE of linux/pidfd.h).
  constexpr unsigned long get_pid_namespace = _IO(0xFF, 5);
  const Fd process(open_pidfd(::getpid()));
  const Fd name_space(process ? ::ioctl(process.get(), get_pid_namespace, 0) : -1);
  if (name_space && ::fstat(name_space.get(), &status) == 0) return status.st_ino;
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

SessionLock::SessionLock(const Directory& directory, Session session) {
  const Fd low = directory.open_file(sessions_name, O_RDWR, true);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // Near the end of the usual 1024, which shells and daemons leave alone.
  const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1024));
  fd_ = Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, std::max(end - 24, 3)));
  if (!fd_) throw failure_of(errno, "cannot open a session");
  auto range = byte_range(F_WRLCK, static_cast<off_t>(session));
  if (::fcntl(fd_.get(), F_OFD_SETLK, &range) != 0) throw lock_failure(directory);
}

Fd watch_mark(const Directory& directory) {
  Fd mark = directory.open_file(sessions_name, O_RDWR, true);
  auto range = byte_range(F_RDLCK, watch_byte);
  if (::fcntl(mark.get(), F_OFD_SETLK, &range) != 0) throw lock_failure(directory);
  return mark;
}

Gate::Gate(const Directory& directory, bool create, To to)
    : fd_(directory.open_file(sessions_name, create ? O_RDWR : O_RDONLY, create)),
      byte_(to == To::state ? state_byte : registers_byte) {}

bool Gate::try_lock(Access access) {
  auto range = byte_range(access == Access::write ? F_WRLCK : F_RDLCK, byte_);
  if (::fcntl(fd_.get(), F_OFD_SETLK, &range) != 0) {
    if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
    throw Failure(
        Failure::Kind::misconfigured,
        std::string("cannot lock the store's sessions file: ") + std::strerror(errno));
  }
  return true;
}

void Gate::unlock() {
  auto range = byte_range(F_UNLCK, byte_);
  ::fcntl(fd_.get(), F_OFD_SETLK, &range);
}

pid_t Gate::holder() const {
  for (const auto& process : all_processes()) {
    if (process.pid != ::getpid() &&
        is_locked_by(process.pid, static_cast<Session>(byte_))) {
      return process.pid;
    }
  }
  return 0;
}

// The kernel names no owner for a lock of this kind, but /proc/PID/fdinfo lists those of
// each description: "lock:\t1: OFDLCK  ADVISORY  WRITE -1 08:02:1234 0 0".
bool Gate::is_locked_by(pid_t pid, Session session) const {
  struct stat file {};
  ::fstat(fd_.get(), &file);
  const auto byte = " " + std::to_string(session);
  const auto place = ":" + std::to_string(file.st_ino) + byte + byte + "\n";
  const auto directory = "/proc/" + std::to_string(pid) + "/fdinfo";
  for (const auto& name : entries_of(directory)) {
    const auto text = text_of(directory + "/" + name);
    if (text.find("OFDLCK") != std::string::npos &&
        text.find(place) != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::vector<Fd> Gate::processes_of(const Holder& holder) const {
  std::vector<Fd> found;
  const auto is_of_run = [&](pid_t pid) {
    return is_locked_by(pid, holder.party.session) ||
           (pid == holder.command && command_runs(holder));
  };
  for (const auto& process : all_processes()) {
    if (!is_of_run(process.pid)) continue;
    Fd opened(open_pidfd(process.pid));
    // Again, for until it was opened the pid could pass to a stranger.
    if (opened && is_of_run(process.pid)) found.push_back(std::move(opened));
  }
  return found;
}

bool Gate::is_locked(Session session) const {
  auto range = byte_range(F_RDLCK, static_cast<off_t>(session));
  // An error is no proof of death.
  return ::fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

bool Gate::is_watched() const {
  auto range = byte_range(F_WRLCK, watch_byte);
  return ::fcntl(fd_.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool Gate::lives(const Holder& holder) const {
  return is_locked(holder.party.session) || command_runs(holder);
}

bool Gate::lives(const Waiter& waiter) const { return is_locked(waiter.party.session); }

bool dlock_is_gone(const Holder& holder) {
  if (holder.party.pid_namespace != own_pid_namespace()) return false;
  if (has_ended(holder.party.pid)) return true;
  const auto process = process_of(holder.party.pid);
  return process &&
         process->started > holder.granted_at.time_since_epoch().count() + tick;
}

Failure gate_shut(const Gate& gate, milliseconds waited) {
  std::string who = "another process";
  if (const auto pid = gate.holder(); pid > 0) {
    who = "process " + std::to_string(pid);
    if (is_stopped(pid)) who += " (stopped: kill -CONT " + std::to_string(pid) + ")";
  }
  return Failure(Failure::Kind::unreachable,
                 "the store has been kept busy for " + for_people(waited) + " by " + who);
}

}  // namespace dlock::local
