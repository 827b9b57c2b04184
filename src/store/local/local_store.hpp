// The embedded store: LMDB for the state, the kernel for life and death.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lock/errors.hpp"
#include "lock/store.hpp"
#include "store/local/database.hpp"
#include "store/local/directory.hpp"
#include "store/local/events.hpp"
#include "store/local/limit_rules.hpp"
#include "store/local/rules.hpp"
#include "store/local/runs_log.hpp"
#include "store/local/sessions.hpp"
#include "store/local/wake_socket.hpp"
#include "store/local/watchers.hpp"

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
  // The gate, open for us until the end of the scope.
  class Turn {
   public:
    explicit Turn(Gate& gate) : gate_(&gate) {}
    Turn(Turn&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (gate_ != nullptr) gate_->unlock();
    }

   private:
    Gate* gate_;
  };

  void open(Directory::Missing missing);
  bool open_what_is_there();
  void close();
  asio::awaitable<Turn> take_turn(Gate::Access access, Wakeup& wakeup);
  asio::awaitable<Turn> take_turn(Gate& gate, Gate::Access access, Wakeup& wakeup);
  void open_database(Database::Access access);
  void create_database();

  LockInfo look_at(const LockName& lock);
  std::vector<LockInfo> look_at_all(
      const std::string& name_space,
      const std::function<bool(const std::string&)>& matches);
  State load(Transaction& transaction, const LockName& lock);
  void recall_commands(State& state, const LockName& lock) const;
  State load_to_change(Transaction& transaction, const LockName& lock);
  bool store(Transaction& transaction, const LockName& lock, const State& state,
             const Cause& cause = {});
  asio::awaitable<void> watch_for_a_while(const Watched& watched, EventSink& sink,
                                          Wakeup& wakeup);
  std::set<LockName> locks_with_holders(const Watched& watched);
  asio::awaitable<void> tidy_ended(std::set<LockName>& held, Wakeup& wakeup);
  asio::awaitable<void> tidy(LockName lock, Wakeup& wakeup);
  std::vector<RunInfo> runs_of(const LockName& lock);
  void keep_runs(Transaction& transaction, const LockName& lock,
                 const std::vector<RunInfo>& runs);
  static void complete(std::vector<HolderInfo>& holders, const State& state);
  static void complete(LockInfo& info, const State& state);
  void tell(const Consequences& consequences);
  void sweep(Transaction& transaction, Moment moment);
  void check_in_place();
  LimitState load_limit(Transaction& transaction, const LockName& limit) const;
  asio::awaitable<void> log_ends(const LockName& lock, const std::vector<RunInfo>& runs,
                                 Wakeup& wakeup);
  asio::awaitable<void> log(const std::string& lines, Wakeup& wakeup);
  const Party& own_party(const Claim& claim);
  void stop_waiting();
  void follow(const Watch& watch);
  void watch_sessions();
  void probe_soon();
  void look_at_lease();
  void look_at_lease_after(milliseconds pause);
  std::optional<Loss> loss();
  void watch_files();
  bool in_place() const;

  asio::io_context& context_;
  Options options_;
  bool ours_;  // the default directory, which has to belong to this user
  std::optional<Directory> directory_;
  std::optional<Gate> gate_;
  std::unique_ptr<Database> database_;
  Database::Access opened_for_ = Database::Access::read;
  std::optional<SessionLock> session_;
  Party party_;
  std::optional<Holder> holder_;  // what we were granted, for the log
  bool noted_start_ = false;
  bool was_replaced_ = false;
  std::optional<std::pair<Token, RateAnswer>> admitted_;  // the last one, for who repeats
  bool is_watching_ = false;
  Waker waker_;
  std::optional<State> before_;  // the state that is being changed, if anybody watches

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
