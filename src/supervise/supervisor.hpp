// Runs the command, and ends its processes when they have to end.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <variant>
#include <vector>

#include "lock/command_process.hpp"
#include "lock/lease_watcher.hpp"
#include "lock/wakeup.hpp"
#include "supervise/ladder.hpp"
#include "supervise/launch.hpp"
#include "supervise/signals.hpp"
#include "supervise/spawn.hpp"

namespace dlock {

// What is known of a command only once the lock is ours.
struct StartPlan {
  std::vector<std::string> environment;
  // Until when the lease surely holds that it starts on.
  Clock::time_point deadline = Clock::time_point::max();
  int session = -1;  // a close-on-exec descriptor to pass on all the same
  int output = -1;   // to be its standard output; one that the guardian knows, if any
  const StartNote* note = nullptr;  // to be written by the command's process
};

// The process boundary: knows deadlines, not stores. One command.
class Supervisor : public LeaseWatcher {
 public:
  // Starts the command. Signals that came meanwhile are passed on whoever sent them:
  // the terminal's may have come before there was a command in the group.
  virtual asio::awaitable<std::variant<Spawned, SpawnFailure>> start(StartPlan plan) = 0;

  // Passes signals on and ends what has to end, until nothing is left of the command
  // that the plan wants to wait for. Its process is reaped only behind that, so that its
  // number and its group's cannot pass to strangers meanwhile. After start() succeeded.
  virtual asio::awaitable<Ended> ended() = 0;

  // After ended(): whatever process did that may end, too.
  virtual void let_go() {}

  // Until when the lease surely held, as far as it was told.
  virtual Clock::time_point deadline() const = 0;
};

// Whether a signal that dlock got came to the command as well: the terminal sends to its
// whole foreground group.
bool has_reached_command(const Signal& signal, const SupervisionPlan& plan);

// Whether a signal is one to pass on at all.
bool is_for_command(int signal);

// What to say of processes that we may not end.
std::string unkillable(int count);

// What to say of processes that are killed, and are not gone for long.
std::string not_gone();

// Whether this process has a controlling terminal.
bool has_terminal();

}  // namespace dlock
