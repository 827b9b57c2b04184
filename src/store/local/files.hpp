// The files of a local store: opens them, changes them under their mutexes, and closes
// them when they have been replaced.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <vector>

#include "loop/wakeup.hpp"
#include "store/directory.hpp"
#include "store/local/local_waiting.hpp"
#include "store/local/record_file.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state_folder.hpp"
#include "util/failure.hpp"

namespace dlock::local {

// Whether a failure to read the file of a lock says nothing about other locks: the file
// is damaged, and not, for example, the process out of descriptors.
inline bool is_about_one_lock(const Failure& failure) {
  return failure.kind() == Failure::Kind::misconfigured;
}

// Everything here throws Failure for files that cannot be used, and Failure (interrupted)
// if the wait for a mutex is interrupted.
class Files {
 public:
  // The state of a lock, to be changed while its mutex is held.
  struct Change {
    MutexGuard guard;
    RecordFile file;
    State state;
    std::optional<State> before;  // only if the store is watched
  };

  // A lock as it was read without its mutex.
  struct Look {
    RecordFile file;
    State state;
  };

  // `path` of the directory, absolute; empty for the default one. `timeout` is the budget
  // of one operation. Opens nothing yet.
  Files(asio::io_context& context, std::string path, milliseconds timeout);

  const std::string& path() const { return path_; }
  asio::io_context& context() const { return context_; }

  // The claim of this process; its command need not be looked up in the log.
  void set_own_claim(const Token& token) { own_token_ = token; }

  // Opens what exists, for reading. False if the store has never been used. There is no
  // folder if it has not been used since boot. Throws Failure (misconfigured) if it is in
  // use by other clocks.
  bool open_to_look();

  // Opens the files for changes; creates what is missing.
  asio::awaitable<void> open_to_use(Wakeup& wakeup);

  // Opens the files for changes to a lease of another process. False, and nothing is
  // created, if the store has not been used since boot.
  bool open_existing();

  // Opens the files to record the end of a lost run. False if the store no longer exists
  // or cannot be used now.
  asio::awaitable<bool> open_to_record(Wakeup& wakeup);

  // Opens only the directory. False if it does not exist.
  bool open_directory();
  void create_directory() { open(Directory::Missing::create); }

  // Reopens the sessions file for locking; what was opened for reading cannot be locked.
  void open_sessions_to_lock() { sessions_.emplace(*directory_, true); }

  void close();
  bool was_replaced() const { return was_replaced_; }

  // Call each of these only after the file was opened.
  const Directory& directory() const { return *directory_; }
  SessionsFile& sessions() { return *sessions_; }
  const SessionsFile& sessions() const { return *sessions_; }
  const Directory& folder() const { return *folder_; }
  bool has_folder() const { return folder_.has_value(); }
  bool are_open() const { return sessions_ && folder_; }

  asio::awaitable<MutexGuard> lock_mutex(MutexByte byte, Wakeup& wakeup);

  // The result of `operation`, which is repeated for as long as an operation may take if
  // it fails for a reason that may be over in a moment: Transient, and if
  // `waits_for_resources` also Failure (exhausted). Throws the last Failure.
  template <typename Operation>
  auto repeated(Wakeup& wakeup, Operation operation, bool waits_for_resources = false)
      -> decltype(operation()) {
    const auto start = Clock::now();
    auto pause = first_repetition;
    for (;;) {
      try {
        co_return co_await operation();
      } catch (const Failure& failure) {
        const bool may_pass =
            dynamic_cast<const Transient*>(&failure) != nullptr ||
            (waits_for_resources && failure.kind() == Failure::Kind::exhausted);
        if (!may_pass || wakeup.gives_up() || Clock::now() - start >= timeout_) throw;
      }
      co_await wakeup.sleep_until(std::min(Clock::now() + pause, start + timeout_));
      pause = std::min(pause * 2, longest_repetition);
    }
  }

  // Whether our open files are still the ones that other processes would open.
  bool in_place() const;

  // Throws Failure (unreachable) if they are not; the next use closes them.
  void check_in_place();

  asio::awaitable<Change> begin_change(const LockName& lock, Wakeup& wakeup);

  // The same for a claim, after check_in_place(). If the file of the lock was removed or
  // damaged, it begins anew, a damaged one with the runs in the log, unless another claim
  // has its session locked or a lease of acquire may be in a damaged file; then it throws
  // Transient or Damaged. `own`: the session of this claim, or 0.
  asio::awaitable<Change> begin_claim(const LockName& lock, Session own, Wakeup& wakeup);

  // Writes the changed state; false if it did not have to be written.
  bool commit(Change& change, const LockName& lock, const Cause& cause = {});

  // Sets the fence floor of a new lock: its first grant must exceed all fences of locks
  // whose files were removed.
  asio::awaitable<void> apply_fence_floor(State& state, Wakeup& wakeup);

  // The folder's head, which is written anew if it is missing or damaged.
  asio::awaitable<FolderHead> sound_head(Wakeup& wakeup);

  // Touches what dlock uses but seldom writes to, because programs that clean up
  // temporary directories remove files that look unused for days. Once in half a day is
  // enough. `file`: of a lock in use, or null.
  void keep_fresh(const RecordFile* file) const;

  // Wakes all waiters, so that they find out what became of the files.
  void wake_all_waiters();

  Look look_at(const LockName& lock) const;

  // The result of `take` for the state of the lock, in which it checks which processes
  // live. A process that leaves between the two would look dead, so this is repeated if
  // the state has changed meanwhile.
  template <typename Take>
  auto taken_from(const LockName& lock, Take take) const {
    for (int looks = 1;; ++looks) {
      const auto look = look_at(lock);
      auto taken = take(look.state);
      const bool is_quiet = look.state.holders.empty() && look.state.waiters.empty();
      if (is_quiet || looks == most_looks || !look.file.has_changed()) return taken;
    }
  }

  // Wakes waiters, and removes the sockets of dead ones.
  void notify(const Consequences& consequences);
  Waker& waker() { return waker_; }

  // Appends to the log, which later boots and people read. A failure to write it (a full
  // disk) must not prevent a grant or a release, and is ignored.
  asio::awaitable<void> log_ends(const LockName& lock, const std::vector<RunInfo>& runs,
                                 Wakeup& wakeup);
  asio::awaitable<void> log(const std::string& lines, Wakeup& wakeup);

  // Removes the files of locks that were not used for long, if a sweep is due.
  void note_sweep(const FolderHead& head);
  asio::awaitable<void> drop_unused(Wakeup& wakeup);

 private:
  // Pauses between the attempts of repeated().
  static constexpr nanoseconds first_repetition = std::chrono::microseconds(500);
  static constexpr nanoseconds longest_repetition = milliseconds(50);

  // How often a lock is read again if it changes meanwhile.
  static constexpr int most_looks = 20;

  void open(Directory::Missing missing);
  Change begin(const LockName& lock, MutexGuard&& guard);
  RecordFile file_to_change(const std::string& file);
  void write(RecordFile& file, const LockName& lock, State& state,
             std::string payload) const;
  void recall_holders(State& state, const LockName& lock) const;

  asio::io_context& context_;
  std::string path_;
  milliseconds timeout_;
  bool ours_;  // the default directory, which has to belong to this user
  std::optional<Directory> directory_;
  std::optional<SessionsFile> sessions_;
  std::optional<Directory> folder_;  // of the state
  Token own_token_;
  bool was_replaced_ = false;
  bool is_sweep_due_ = false;  // as of the last check
  Waker waker_;
};

}  // namespace dlock::local
