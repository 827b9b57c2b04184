// Supervision by a guardian, for a lease that expires unless it is renewed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "loop/readable.hpp"
#include "supervise/guardian.hpp"
#include "supervise/supervisor.hpp"

namespace dlock {

// The command is a child of the guardian, which decides and acts. This side forwards
// signals and changes of the lease, and takes over if the guardian is gone.
class GuardedSupervisor final : public Supervisor {
 public:
  GuardedSupervisor(asio::io_context& context, Guardian& guardian, SupervisionPlan plan,
                    SignalInbox& signals, Wakeup& wakeup,
                    std::function<void(const std::string&)> say);

  asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) override;
  asio::awaitable<Ended> ended() override;
  void let_go() override { channel_.reset(); }

  void extend(Clock::time_point deadline) override;
  Clock::time_point deadline() const override { return deadline_; }
  void forfeit(Loss loss) override;

 private:
  void read_channel();
  bool notify_guardian(std::uint8_t word);
  asio::awaitable<void> await_group();
  std::vector<int> take_early_signals();
  void pass_on_signals();
  void send(int signal, bool reached_group);
  void note_survivors(int refused, bool stuck);
  Clock::time_point overdue_at() const;
  asio::awaitable<Ended> end_without_guardian();

  asio::io_context& context_;
  Guardian& guardian_;
  GuardianPage& page_;
  SupervisionPlan plan_;
  SignalInbox& signals_;
  Wakeup& wakeup_;
  std::function<void(const std::string&)> say_;
  std::optional<Readable> channel_;
  bool guardian_is_gone_ = false;
  // Whether the command is, or was, in the caller's group, so that the terminal's signals
  // reach it unless it has left.
  bool reaches_command_ = false;
  std::optional<Loss> lost_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool said_survivors_ = false;
};

}  // namespace dlock
