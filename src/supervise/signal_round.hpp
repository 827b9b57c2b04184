// Sends a signal to the whole tree of the command, without allocating memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "supervise/process_scan.hpp"
#include "util/clock.hpp"

namespace dlock {

// The command's process, not yet reaped (0: it no longer exists), and whether it leads
// its own process group.
struct TreeRoot {
  pid_t command = 0;
  bool own_group = false;
  pid_t told_group = 0;  // the processes of this group have got the signal already
};

// Sends a signal once to each process that descends from this one, and to processes that
// start meanwhile; TERM is followed by CONT. But not below a process that catches or
// blocks the signal, which may start what it needs to clean up.
//
// A process that is to die of the signal can fork before it does: a shell, for example,
// blocks TERM while it forks, and the child has not got the signal. Therefore the round
// lasts until each of them has died, for a second at most. Use one at a time: the list of
// the processes is in static memory.
class SignalRound {
 public:
  // Starts over, with another signal. Stops scanning /proc at `until`. If /proc cannot be
  // read, it reaches the process group and the children.
  void begin(ProcessScan& scan, int signal, const TreeRoot& root,
             Clock::time_point until);

  // The same for processes that have started since, if next_look() has come.
  void resume(ProcessScan& scan, Clock::time_point until);

  // max(): none is left that may start one.
  Clock::time_point next_look() const { return next_look_; }

  void end() { next_look_ = Clock::time_point::max(); }

 private:
  enum class Look { first, again };

  template <typename Send>
  int send(Send send) const;
  bool was_sent_to_group(const ScannedProcess& process) const;
  bool is_spared(const ScannedProcess& process) const;
  bool send_to_all(const ProcessScan& scan, const ProcessScan::Processes& found,
                   Look look);
  void send_to_hidden_children(ProcessScan& scan) const;
  void look(ProcessScan& scan, Clock::time_point until);
  bool is_any_dying(const ProcessScan::Processes& found) const;

  int signal_ = 0;
  TreeRoot root_;
  std::size_t count_ = 0;     // of the processes that have got the signal
  std::int64_t begin_ = 0;    // in ticks of /proc
  bool has_catcher_ = false;  // one of them catches the signal
  milliseconds pause_{0};     // before the next look
  Clock::time_point next_look_ = Clock::time_point::max();
};

}  // namespace dlock
