// The file `sessions`: locks on its bytes prove who is alive, and serve as mutexes.
//
// It has no contents; only the kernel's locks on single bytes matter. They belong to open
// file descriptions (fcntl F_OFD_SETLK): children inherit them, and they end with the
// last process that has the description open.
//
// Beside it, within which boot and namespaces a session, a pid and a time mean something.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/states.hpp"
#include "rules/limit.hpp"
#include "rules/look.hpp"
#include "rules/step.hpp"
#include "store/directory.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock::local {

// The names of the rules and records that this store uses throughout.
using record::decoded;
using record::decoded_limit;
using record::encoded;
using record::first_session;
using record::is_session;
using record::last_session;
using record::room_for_ends;
using rules::AnsweredWaiter;
using rules::Cause;
using rules::Consequences;
using rules::Holder;
using rules::is_possible;
using rules::LimitState;
using rules::Liveness;
using rules::Moment;
using rules::Party;
using rules::Session;
using rules::State;
using rules::Waiter;

// A byte of the file, far behind the fixed mutexes, that stays locked while any process
// has this description open: dlock itself, the command, and its stragglers. Those of one
// lock are next to each other, so that the kernel can tell whether a lock is in use
// although its file was removed (SessionsFile::is_in_use).
class SessionLock {
 public:
  // Locks the byte. The descriptor has a high number, so that it does not collide with
  // those in scripts (exec 9>file), and is close-on-exec until the command is started.
  // Throws Failure.
  SessionLock(const Directory& directory, const LockName& lock, const Token& token);

  Session session() const { return session_; }
  int fd() const { return fd_.get(); }

 private:
  Session session_ = 0;
  Fd fd_;
};

// Marks the store as watched while the returned descriptor is open. Throws Failure.
Fd watch_mark(const Directory& directory);

// A byte of the file that serves as a mutex. The mutexes of single locks follow all
// sessions (record_file.hpp); the holder of one may replace or remove the file in the
// state folder that belongs to it.
using MutexByte = off_t;
constexpr MutexByte setup_mutex = 0;      // creates the state folder
constexpr MutexByte registers_mutex = 1;  // changes the fence registers
constexpr MutexByte events_mutex = 3;     // appends to the file of events
constexpr MutexByte upkeep_mutex = 4;     // shortens the log, removes unused locks
// Stands for the mutexes of all locks and limits, which are the bytes behind it.
constexpr MutexByte all_locks_mutex = (MutexByte{1} << 62) - 1;

// Locks the mutex bytes and probes the others. It has a separate file description: a lock
// never conflicts with its own description, and an inherited mutex would outlive a killed
// dlock.
class SessionsFile final : public Liveness {
 public:
  // Creates the file if `create`; otherwise see exists().
  SessionsFile(const Directory& directory, bool create);

  bool exists() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

  // When the file was last changed or touched, as of the time when it was opened.
  WallTime changed() const { return changed_; }

  // Whether its name still leads to the file.
  bool is_in_place(const Directory& directory) const;

  // Locks the byte if it is free now. Throws Failure where locks do not work.
  bool try_lock(MutexByte byte);
  void unlock(MutexByte byte);

  // The process that holds the byte, for messages; found through /proc, so 0 if it
  // belongs to another user. Slow.
  pid_t owner_of(MutexByte byte) const;

  bool is_locked(Session session) const;

  // Whether any session is locked.
  bool has_sessions() const;

  // Whether a claim on the lock has its session locked, other than that with `own`, which
  // may be 0.
  bool is_in_use(const LockName& lock, Session own) const;

  // Whether the store is watched: see text_files.hpp.
  bool is_watched() const;

  // The remaining processes of a run that /proc shows us: a pidfd of each process that
  // has its session open and whose initial environment contains the fence. Both are
  // required: the state may be forged, and a descriptor can be sent to an unrelated
  // process.
  std::vector<Fd> processes_of(const Holder& holder) const;

  bool is_alive(const Holder& holder) const override;
  bool is_alive(const Waiter& waiter) const override;
  bool is_stopped(const Waiter& waiter) const override;

 private:
  bool is_locked_by(pid_t pid, off_t byte) const;

  FileIdentity identity_;
  WallTime changed_{};
  Fd fd_;
};

// Holds a mutex until the end of the scope.
class MutexGuard {
 public:
  MutexGuard(SessionsFile& sessions, MutexByte byte)
      : sessions_(&sessions), byte_(byte) {}
  MutexGuard(MutexGuard&& other) noexcept
      : sessions_(std::exchange(other.sessions_, nullptr)), byte_(other.byte_) {}
  MutexGuard& operator=(MutexGuard&&) = delete;
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;
  ~MutexGuard() {
    if (sessions_ != nullptr) sessions_->unlock(byte_);
  }

 private:
  SessionsFile* sessions_;
  MutexByte byte_;
};

// Whether the dlock process of `holder` has certainly exited: it was in this pid
// namespace and has exited, or its pid now belongs to a process that started later.
bool dlock_is_gone(const Holder& holder);

// The Failure for a mutex that was not free for `waited`; it names the process that holds
// it.
Failure mutex_unavailable(const SessionsFile& sessions, MutexByte byte,
                          milliseconds waited);

// The kernel's numbers; 0 if the kernel has no such namespace.
struct Namespaces {
  std::uint64_t pids = 0;  // pids are comparable within it
  std::uint64_t time = 0;  // boot times are comparable within it
};

// Cached: dlock never changes its namespaces.
const Namespaces& own_namespaces();

// The kernel's boot id. Containers may have another one. Throws Failure.
std::string boot_id();

// Identifies the states whose times can be compared with ours: the boot id, followed by
// the time namespace unless that is the machine's initial one, whose clocks start at
// zero.
const std::string& own_epoch();

// The name of the folder with the state of the locks of this epoch; and whether `name`
// is that folder of any epoch, or what an earlier version of dlock had instead.
std::string state_folder_name();
bool is_state_folder_name(const std::string& name);

// The folder of this epoch; nothing if it does not exist yet.
std::optional<Directory> open_state_folder(const Directory& directory);

}  // namespace dlock::local
