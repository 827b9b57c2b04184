// The command of a simulated run and its guardian: dlock's ladder decides, as it does in
// the guardian process, and the processes are values.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "supervise/ladder.hpp"
#include "supervise/supervisor.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

// What the command does if it is not stopped.
struct CommandPlan {
  Time runs_for = 0;
  std::optional<int> signal;  // that ends it
  bool obeys_term = true;
  Time starts_after = 0;  // how long its process is on its way to exec
};

// The guardian outlives dlock: it acts even if dlock is stopped or dead. Both share the
// deadline, as they share a page of memory.
class SimulatedGuardian {
 public:
  enum class Phase { idle, running, failed, over };

  SimulatedGuardian(Kernel& kernel, const SupervisionPlan& plan,
                    const CommandPlan& command, Process& owner)
      : kernel_(kernel), plan_(plan), command_(command), owner_(owner) {}

  void start_command();
  void extend(Clock::time_point deadline);  // unless the command is being stopped
  void lose(Loss loss);
  void look();  // does what is due
  void stop(Time span);
  void kill();  // and, as its parent's death kills it, the command

  // Called when the phase changes or the ladder acts; and when the command starts and
  // has ended.
  std::function<void()> notify = [] {};
  std::function<void()> started = [] {};
  std::function<void(bool by_itself)> ended = [](bool) {};

  Phase phase = Phase::idle;
  bool is_ending = false;  // no renewal extends the command's time
  bool is_dead = false;
  bool is_alive = false;  // the command
  Ended end;

 private:
  void tell();
  void end_command(bool by_itself, std::optional<int> exit_code,
                   std::optional<int> signal);
  bool may_start() const;
  static Clock::time_point moment(Time time) {
    return Clock::time_point(nanoseconds(time));
  }

  Kernel& kernel_;
  SupervisionPlan plan_;
  CommandPlan command_;
  Process& owner_;
  std::optional<Ladder> ladder_;
  std::vector<Loss> losses_;  // that it was told of
  Clock::time_point deadline_ = Clock::time_point::max();
  Time stopped_until_ = 0;
  bool is_dying_ = false;
};

// dlock's side of it, as GuardedSupervisor.
class SimulatedSupervisor final : public Supervisor {
 public:
  // `granted` is called with the environment of the command.
  SimulatedSupervisor(SimulatedGuardian& guardian, const SupervisionPlan& plan,
                      Wakeup& wakeup,
                      std::function<void(const std::vector<std::string>&)> granted);
  ~SimulatedSupervisor() override;

  asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) override;
  asio::awaitable<Ended> ended() override;
  void extend(Clock::time_point deadline) override;
  void forfeit(Loss loss) override;

 private:
  Clock::time_point overdue_at() const;

  SimulatedGuardian& guardian_;
  SupervisionPlan plan_;
  Wakeup& wakeup_;
  std::function<void(const std::vector<std::string>&)> granted_;
  std::optional<Loss> lost_;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace dlock::simulation
