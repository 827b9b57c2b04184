// The embedded store: small files for the state, the kernel for life and death.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lock/store.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"
#include "rules/runs.hpp"
#include "store/local/directory.hpp"
#include "store/local/event_file.hpp"
#include "store/local/file_name.hpp"
#include "store/local/limit_bytes.hpp"
#include "store/local/record_file.hpp"
#include "store/local/runs_log.hpp"
#include "store/local/sessions.hpp"
#include "store/local/state_bytes.hpp"
#include "store/local/state_folder.hpp"
#include "store/local/wake_socket.hpp"
#include "store/local/watchers.hpp"
#include "util/failure.hpp"

namespace dlock::local {

class LocalStore final : public Store {
 public:
  struct Options {
    std::string path;      // of its directory, absolute; empty for the default one
    milliseconds timeout;  // the budget of one operation
  };

  LocalStore(asio::io_context& context, Options options);
  ~LocalStore() override;

  std::string url() const override;
  asio::awaitable<Answer> ask(const Claim& claim, Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                   Clock::time_point until) override;
  asio::awaitable<Release> release(const Claim& claim, const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLookup> get_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                     Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) override;
  int session() const override;
  std::optional<StartNote> start_note(const Claim& claim) override;
  asio::awaitable<void> started(const Claim& claim, const CommandProcess& process,
                                Wakeup& wakeup) override;
  void start_keeping(const Claim& claim, const Grant& grant, LeaseTiming timing,
                     LeaseWatcher& watcher) override;
  void stop_keeping() override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override;
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
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

  void open(Directory::Missing missing);
  bool open_to_look();
  asio::awaitable<void> open_to_use(Wakeup& wakeup);
  bool open_what_is_there();
  asio::awaitable<bool> open_to_record(Wakeup& wakeup);
  void close();
  asio::awaitable<Turn> take_turn(GateByte byte, Wakeup& wakeup);
  bool in_place() const;
  void check_in_place();

  asio::awaitable<Change> begin_change(const LockName& lock, Wakeup& wakeup);
  RecordFile file_to_change(const std::string& file);
  bool commit(Change& change, const LockName& lock, const Cause& cause = {});
  void write(RecordFile& file, const LockName& lock, State& state) const;
  State state_in(const RecordFile& file, const LockName& lock) const;
  Look look_at(const LockName& lock) const;
  template <typename Take>
  auto taken_from(const LockName& lock, Take take) const;
  std::vector<LockName> locks_of(
      const std::string& name_space,
      const std::function<bool(const std::string&)>& matches) const;
  void recall_commands(State& state, const LockName& lock) const;
  void find_floor(State& state);
  void note_sweep(const FolderHead& head);
  asio::awaitable<void> drop_unused(Wakeup& wakeup);
  void drop_if_unused(const std::string& file, std::uint64_t floor);
  LockInfo info_of_lock(const LockName& lock) const;
  static void complete(std::vector<HolderInfo>& holders, const State& state);

  asio::awaitable<void> watch_for_a_while(const Watched& watched, EventSink& sink,
                                          Wakeup& wakeup);
  std::set<LockName> locks_with_holders(const Watched& watched) const;
  asio::awaitable<void> tidy_ended(std::set<LockName>& held, Wakeup& wakeup);
  asio::awaitable<void> tidy(LockName lock, Wakeup& wakeup);
  void tell(const Consequences& consequences);
  LimitState limit_in(const RecordFile& file, const LockName& limit) const;
  asio::awaitable<void> log_ends(const LockName& lock, const std::vector<RunInfo>& runs,
                                 Wakeup& wakeup);
  asio::awaitable<void> log(const std::string& lines, Wakeup& wakeup);
  const Party& own_party(const Claim& claim);
  void start_waiting(const Claim& claim, Wakeup& wakeup);
  void stop_waiting();
  void follow(const rules::WaitsFor& watch);
  void watch_sessions();
  void probe_soon();
  void look_at_lease();
  void look_at_lease_after(milliseconds pause);
  std::optional<Loss> loss() const;
  void watch_files();

  asio::io_context& context_;
  Options options_;
  bool ours_;  // the default directory, which has to belong to this user
  std::optional<Directory> directory_;
  std::optional<Gate> gate_;
  std::optional<Directory> folder_;  // of the state
  std::optional<SessionLock> session_;
  Party party_;
  std::optional<Holder> holder_;  // what we were granted, for the log
  bool noted_start_ = false;
  bool was_replaced_ = false;
  bool is_sweep_due_ = false;                             // as far as it was looked for
  std::optional<std::pair<Token, RateAnswer>> admitted_;  // the last one, for who repeats
  bool is_watching_ = false;
  Waker waker_;

  // While waiting.
  std::optional<WakeSocket> wake_socket_;
  std::optional<ProcessWatcher> processes_;
  std::optional<FileWatcher> sessions_watcher_;  // once made, kept: see FileWatcher
  bool watch_sessions_ = false;
  Wakeup* sleeper_ = nullptr;
  Clock::time_point ask_again_;
  int probes_left_ = 0;
  nanoseconds next_probe_{};

  // While holding.
  struct Keeping {
    LockName lock;
    Token token;
    LeaseWatcher* watcher;
    asio::steady_timer timer;
  };
  std::optional<Keeping> keeping_;
  std::optional<FileWatcher> files_watcher_;  // for longer than a moment
};

}  // namespace dlock::local
