// Supervision without a guardian, for a lease that does not expire.
#pragma once

#include <functional>
#include <optional>

#include "supervise/own_cgroup.hpp"
#include "supervise/process_tree.hpp"
#include "supervise/supervisor.hpp"

namespace dlock {

// The command is a child of this process.
class DirectSupervisor final : public Supervisor {
 public:
  DirectSupervisor(std::vector<std::string> argv, SupervisionPlan plan,
                   SignalInbox& signals, Wakeup& wakeup,
                   std::function<void(const std::string&)> say);
  ~DirectSupervisor() override;
  DirectSupervisor(const DirectSupervisor&) = delete;
  DirectSupervisor& operator=(const DirectSupervisor&) = delete;

  asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) override;
  asio::awaitable<Ended> ended() override;

  void extend(Clock::time_point deadline) override;
  Clock::time_point deadline() const override { return deadline_; }
  void forfeit(Loss loss) override;

 private:
  void pass_on(const Signal& signal);
  void send(int signal, bool reached_group);
  void end_tree(Clock::time_point now);
  void look_at_processes();

  std::vector<std::string> argv_;
  SupervisionPlan plan_;
  SignalInbox& signals_;
  Wakeup& wakeup_;
  std::function<void(const std::string&)> say_;
  std::optional<Ladder> ladder_;
  Clock::time_point deadline_ = Clock::time_point::max();
  ProcessTree tree_;
  OwnCgroup cgroup_;
  pid_t pid_ = 0;
  bool command_ended_ = false;
  bool is_over_ = false;  // ended() has returned; a zombie until the destructor reaps it
  Clock::time_point kills_since_ = Clock::time_point::max();
  bool said_survivors_ = false;
};

}  // namespace dlock
