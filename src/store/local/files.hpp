// The files of a local store: opened, changed under their gates, and let go of when
// somebody has replaced them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/wakeup.hpp"
#include "store/local/directory.hpp"
#include "store/local/names.hpp"
#include "store/local/record_file.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/wake_socket.hpp"

namespace dlock::local {

// Everything here throws Failure for files that cannot be used, and (interrupted) for a
// gate that is not free before the caller wants to stop.
class Files {
 public:
  // A gate that is ours until the end of the scope.
  class Turn {
   public:
    Turn(Gate& gate, GateByte byte) : gate_(&gate), byte_(byte) {}
    Turn(Turn&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), byte_(other.byte_) {}
    Turn& operator=(Turn&&) = delete;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (gate_ != nullptr) gate_->unlock(byte_);
    }

   private:
    Gate* gate_;
    GateByte byte_;
  };

  // The state of a lock under its gate, as it is and as it will be.
  struct Change {
    Turn turn;
    RecordFile file;
    State state;
    std::optional<State> before;  // if anybody watches
  };

  // A lock as it was read, without its gate.
  struct Look {
    RecordFile file;
    State state;
  };

  // `path` of the directory, absolute; empty for the default one. `timeout` is the budget
  // of one operation. Opens nothing yet.
  Files(asio::io_context& context, std::string path, milliseconds timeout);

  const std::string& path() const { return path_; }
  asio::io_context& context() const { return context_; }

  // The claim of this process, whose command the log need not tell of.
  void set_own_claim(const Token& token) { own_token_ = token; }

  // For a look; nothing is created. False if nobody ever used the store. Without a folder
  // nobody has since the boot.
  bool open_to_look();

  // For changes; creates what is missing.
  asio::awaitable<void> open_to_use(Wakeup& wakeup);

  // For changes to a lease that another process was granted. False, and nothing is
  // created, if nobody has used the store since the boot.
  bool open_what_is_there();

  // For the end of a run that is lost. False if there is no store any more, or none that
  // may be used just now.
  asio::awaitable<bool> open_to_record(Wakeup& wakeup);

  // The directory alone. False if it is not there.
  bool open_directory();
  void create_directory() { open(Directory::Missing::create); }

  // What was opened for a look cannot be locked.
  void open_gate_to_lock() { gate_.emplace(*directory_, true); }

  void close();
  bool was_replaced() const { return was_replaced_; }

  // Each only after it was opened.
  const Directory& directory() const { return *directory_; }
  Gate& gate() { return *gate_; }
  const Gate& gate() const { return *gate_; }
  const Directory& folder() const { return *folder_; }
  bool has_folder() const { return folder_.has_value(); }
  bool are_open() const { return gate_ && folder_; }

  asio::awaitable<Turn> take_turn(GateByte byte, Wakeup& wakeup);

  // Whether the files that we have open are still those that others would open.
  bool in_place() const;

  // Throws Failure (unreachable) if they are not, and has them closed at the next use.
  void check_in_place();

  asio::awaitable<Change> begin_change(const LockName& lock, Wakeup& wakeup);

  // Whether anything had to be written.
  bool commit(Change& change, const LockName& lock, const Cause& cause = {});

  // The first grant of a lock has to be beyond those that nobody remembers one by one.
  void find_floor(State& state);

  Look look_at(const LockName& lock) const;

  // What `take` finds in the state of the lock, and in what the kernel says of those who
  // are in it. One who ended between the two would be taken for dead, so a state that has
  // changed meanwhile is not believed.
  template <typename Take>
  auto taken_from(const LockName& lock, Take take) const {
    for (int looks = 1;; ++looks) {
      const auto look = look_at(lock);
      auto taken = take(look.state);
      const bool is_quiet = look.state.holders.empty() && look.state.waiters.empty();
      if (is_quiet || looks == most_looks || !look.file.has_changed()) return taken;
    }
  }

  // Those that there is a file of, by name.
  std::vector<LockName> locks_of(
      const std::string& name_space,
      const std::function<bool(const std::string&)>& matches) const;

  // Wakes, and removes the sockets of the dead.
  void tell(const Consequences& consequences);
  Waker& waker() { return waker_; }

  // The log serves later boots and people; that it cannot be written (a full disk) must
  // not keep a lock from being granted or given back.
  asio::awaitable<void> log_ends(const LockName& lock, const std::vector<RunInfo>& runs,
                                 Wakeup& wakeup);
  asio::awaitable<void> log(const std::string& lines, Wakeup& wakeup);

  // Removes what nobody has used for long, if it is time for that.
  void note_sweep(const FolderHead& head);
  asio::awaitable<void> drop_unused(Wakeup& wakeup);

 private:
  // How often a lock is looked at again that changes meanwhile.
  static constexpr int most_looks = 20;

  void open(Directory::Missing missing);
  RecordFile file_to_change(const std::string& file);
  void write(RecordFile& file, const LockName& lock, State& state) const;
  State state_in(const RecordFile& file, const LockName& lock) const;
  void recall_commands(State& state, const LockName& lock) const;
  void drop_if_unused(const std::string& file, std::uint64_t floor);

  asio::io_context& context_;
  std::string path_;
  milliseconds timeout_;
  bool ours_;  // the default directory, which has to belong to this user
  std::optional<Directory> directory_;
  std::optional<Gate> gate_;
  std::optional<Directory> folder_;  // of the state
  Token own_token_;
  bool was_replaced_ = false;
  bool is_sweep_due_ = false;  // as far as it was looked for
  Waker waker_;
};

}  // namespace dlock::local
