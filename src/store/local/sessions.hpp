// The file `sessions`: who lives, and whose turn it is to change the state.
//
// Its contents mean nothing but for the first bytes; what counts are the kernel's locks
// on single bytes of it. They belong to open file descriptions (fcntl F_OFD_SETLK), so
// they are shared by inheritance and end with the last process that has them open.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "lock/errors.hpp"
#include "store/local/directory.hpp"
#include "store/local/rules.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The session that goes with a token: a byte far behind the gate.
Session session_of(const Token& token);

// Which processes' ids mean the same as here.
std::uint64_t own_pid_namespace();

// A byte of the file that is locked for as long as any process has this description
// open: dlock itself, the command, and what the command leaves behind.
class SessionLock {
 public:
  // Locks the byte. Its descriptor has a high number, out of the way of what scripts
  // use (exec 9>file), and is close-on-exec: the command's start lifts that.
  SessionLock(const Directory& directory, Session session);

  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

// Says that somebody watches the store, for as long as the descriptor is open. Throws
// Failure.
Fd watch_mark(const Directory& directory);

// The byte that every transaction takes, and the probe of the others. It has a
// description of its own: a lock never stands in the way of the one who holds it, and
// an inherited gate would outlive a killed dlock.
class Gate final : public Lives {
 public:
  enum class Access { read, write };

  // What the gate is to: the state of the locks, or the registers of fences, whose file
  // takes its time to reach the disk.
  enum class To { state, registers };

  // Creates the file if `create`; otherwise see exists().
  Gate(const Directory& directory, bool create, To to = To::state);

  bool exists() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

  // Takes the gate if it is free now.
  bool try_lock(Access access);
  void unlock();

  // Who holds the gate, for the message when it stays shut: found through /proc, so 0
  // if it is another user's process. Slow.
  pid_t holder() const;

  bool is_locked(Session session) const;

  // Whether anybody watches the store: see events.hpp.
  bool is_watched() const;

  // What is left of a run, as far as /proc shows it to us: the processes that have its
  // session open, and its command even if that has closed it. A pidfd each.
  std::vector<Fd> processes_of(const Holder& holder) const;

  bool lives(const Holder& holder) const override;
  bool lives(const Waiter& waiter) const override;

 private:
  bool is_locked_by(pid_t pid, Session session) const;

  Fd fd_;
  off_t byte_;
};

// Whether the dlock of `holder` is surely gone: it was in this pid namespace, and is no
// more, or what has its pid was started later.
bool dlock_is_gone(const Holder& holder);

// That the gate was not to be had for so long, and who has it.
Failure gate_shut(const Gate& gate, milliseconds waited);

}  // namespace dlock::local
