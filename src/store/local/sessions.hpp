// The file `sessions`: who lives, and whose turn it is to change what.
//
// It has no contents; what counts are the kernel's locks on single bytes of it. They
// belong to open file descriptions (fcntl F_OFD_SETLK), so they are shared by inheritance
// and end with the last process that has them open.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "store/local/directory.hpp"
#include "store/local/names.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The session that goes with a token: a byte far behind the gate.
Session session_of(const Token& token);

// Whether a number read from a file can be one.
bool is_session(Session session);

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

// A byte of the file that serves as a mutex. Those of single locks lie behind all
// sessions (file_name.hpp), so that a file of the state folder can be replaced or removed
// by whoever holds its byte.
using GateByte = off_t;
constexpr GateByte setup_gate = 0;      // makes the state folder
constexpr GateByte registers_gate = 1;  // changes the registers of fences
constexpr GateByte events_gate = 3;     // adds to the file of events
constexpr GateByte upkeep_gate = 4;     // shortens the log, and drops unused locks

// Takes those bytes, and probes the others. It has a description of its own: a lock never
// stands in the way of the one who holds it, and an inherited gate would outlive a killed
// dlock.
class Gate final : public Lives {
 public:
  // Creates the file if `create`; otherwise see exists().
  Gate(const Directory& directory, bool create);

  bool exists() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

  // Whether its name still leads to the file.
  bool is_in_place(const Directory& directory) const;

  // Takes the byte if it is free now. Throws Failure where locks do not work.
  bool try_lock(GateByte byte);
  void unlock(GateByte byte);

  // Who holds the byte, for the message when it stays shut: found through /proc, so 0
  // if it is another user's process. Slow.
  pid_t owner_of(GateByte byte) const;

  bool is_locked(Session session) const;

  // Whether anybody lives by this file.
  bool has_sessions() const;

  // Whether anybody watches the store: see event_file.hpp.
  bool is_watched() const;

  // What is left of a run, as far as /proc shows it to us: a pidfd of each process that
  // the kernel says has its session open, and whose environment, as the kernel has it
  // from its start, names the fence. Both, since what stands in the state may be a lie,
  // and a descriptor can be sent to a process that knows nothing of it.
  std::vector<Fd> processes_of(const Holder& holder) const;

  bool lives(const Holder& holder) const override;
  bool lives(const Waiter& waiter) const override;
  bool is_stopped(const Waiter& waiter) const override;

 private:
  bool is_locked_by(pid_t pid, off_t byte) const;

  FileIdentity identity_;
  Fd fd_;
};

// Whether the dlock of `holder` is surely gone: it was in this pid namespace, and is no
// more, or what has its pid was started later.
bool dlock_is_gone(const Holder& holder);

// That the byte was not to be had for so long, and who has it.
Failure gate_shut(const Gate& gate, GateByte byte, milliseconds waited);

}  // namespace dlock::local
