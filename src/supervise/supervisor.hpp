// Runs the command, and kills its processes when they must not live on.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lease/keeper.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "supervise/command_tree.hpp"
#include "supervise/ladder.hpp"
#include "supervise/signals.hpp"
#include "supervise/spawn.hpp"

namespace dlock {

// Supervises one command. It knows deadlines, not stores.
class Supervisor : public LeaseWatcher {
 public:
  // Starts the command. Signals that arrived meanwhile are forwarded whoever sent them:
  // the terminal may have sent one before the command was in the group.
  virtual asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) = 0;

  // Forwards signals and ends processes that must end, until no process is left that the
  // plan waits for. The command's process is reaped only after that, so that its pid and
  // process group are not reused meanwhile. Call it after start() has succeeded.
  virtual asio::awaitable<Ended> ended() = 0;

  // From now on, `told` is called once when the command's processes were sent TERM on the
  // Ladder's decision: with the loss because of which that is, if it is one.
  void on_stop(std::function<void(std::optional<Loss>)> told) { told_ = std::move(told); }

  // After ended(): lets the guardian, if any, exit.
  virtual void let_go() {}

 protected:
  // `say` prints a message for the user.
  explicit Supervisor(std::function<void(const std::string&)> say)
      : say_(std::move(say)) {}

  // Says once that the lock is kept because of processes that cannot be killed.
  void report(const CommandTree::Survivors& survivors);

  // Calls `told` of on_stop().
  void tell_stopped(std::optional<Loss> loss) {
    if (const auto told = std::exchange(told_, {})) told(loss);
  }

 private:
  std::function<void(std::optional<Loss>)> told_;
  std::function<void(const std::string&)> say_;
  bool said_survivors_ = false;
};

// Supervises without a guardian, for a lease that does not expire. The command is a child
// of this process.
class DirectSupervisor final : public Supervisor {
 public:
  DirectSupervisor(std::vector<std::string> argv, const SupervisionPlan& plan,
                   SignalInbox& signals, Wakeup& wakeup,
                   std::function<void(const std::string&)> say);
  ~DirectSupervisor() override;
  DirectSupervisor(const DirectSupervisor&) = delete;
  DirectSupervisor& operator=(const DirectSupervisor&) = delete;

  asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) override;
  asio::awaitable<Ended> ended() override;

  void extend(Clock::time_point deadline) override;
  void forfeit(Loss loss) override;

 private:
  std::vector<std::string> argv_;
  SupervisionPlan plan_;
  SignalInbox& signals_;
  Wakeup& wakeup_;
  CommandTree tree_;
  bool is_over_ = false;  // ended() has returned; a zombie until the destructor reaps it
};

// Whether this process has a controlling terminal.
bool has_terminal();

}  // namespace dlock
