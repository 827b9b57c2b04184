// dlock's side of the guardian process: creates it, notifies it, and supervises the
// command by it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loop/wakeup.hpp"
#include "supervise/command_tree.hpp"
#include "supervise/guardian_process.hpp"
#include "supervise/supervisor.hpp"
#include "util/fd.hpp"

namespace dlock {

// A fork of this process that starts the command and ends it before its lease ends, even
// if this process is stopped, stuck or killed (docs/internals.md, "The guardian").
class Guardian {
 public:
  struct Task {
    std::vector<std::string> argv;
    SignalState signals;
    SupervisionPlan plan;
    std::size_t environment_size = 0;  // upper bound of the command's, in bytes
    CommandStreams streams;
  };

  // Forks. Call it before any socket or database is open, which the guardian would
  // inherit, and with all signals blocked. Throws Failure (exhausted).
  explicit Guardian(const Task& task);

  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  GuardianPage& page() { return *page_; }

  // The socket to the guardian; the caller watches and closes it. It becomes readable
  // when the page has changed, and reports end of file when the guardian has exited.
  Fd take_channel() { return std::move(channel_); }

  // Copies the environment to the shared page; false if it does not fit.
  bool set_environment(const std::vector<std::string>& environment);

  // Lets the command start in the environment that was set; the page reports the result.
  // False, and nothing starts, if the guardian cannot be notified.
  bool start_command();

  // Why the command could not be started, once the phase is `failed`.
  SpawnFailure failure() const;

  // The command's processes, which become ours if the guardian is killed. Reads files.
  CommandTree& inherited_tree();

  // Kills the guardian unconditionally, and a process that was still waiting to become
  // the command, and reaps both.
  void kill();

  // Ends the guardian's work, as the destructor does. A guardian without a running
  // command is killed here. One with a command ends that first, once the channel is
  // closed.
  void dismiss();

 private:
  CommandTree tree_;  // before the fork, so that the guardian counts as a descendant
  GuardianPage* page_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::string> argv_;
  std::vector<std::string> paths_;
  Fd channel_;
  Fd timer_;  // shared with the guardian, which waits for it
  pid_t pid_ = 0;
  pid_t original_pid_ = 0;
};

// Supervises by a guardian, for a lease that expires unless it is renewed.
//
// The command is a child of the guardian, which decides and acts. This side forwards
// signals and changes of the lease, and takes over if the guardian has died.
class GuardedSupervisor final : public Supervisor {
 public:
  GuardedSupervisor(asio::io_context& context, Guardian& guardian,
                    const SupervisionPlan& plan, SignalInbox& signals, Wakeup& wakeup,
                    std::function<void(const std::string&)> say);

  asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) override;
  asio::awaitable<Ended> ended() override;
  void let_go() override { channel_.reset(); }

  void extend(Clock::time_point deadline) override;
  void forfeit(Loss loss) override;

 private:
  void read_channel();
  bool notify_guardian(std::uint8_t word);
  asio::awaitable<void> await_group();
  std::vector<int> take_early_signals();
  void pass_on_signals();
  void send(int signal, bool reached_group);
  Clock::time_point overdue_at() const;
  std::optional<Loss> known_loss() const;
  asio::awaitable<Ended> end_without_guardian();

  asio::io_context& context_;
  Guardian& guardian_;
  GuardianPage& page_;
  SupervisionPlan plan_;
  SignalInbox& signals_;
  Wakeup& wakeup_;
  std::optional<Readable> channel_;
  bool guardian_is_gone_ = false;
  // Whether the command is, or was, in the caller's group, so that the terminal's signals
  // reach it unless it has left.
  bool reaches_command_ = false;
  std::optional<Loss> lost_;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace dlock
