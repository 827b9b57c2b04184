// When the command's processes get TERM, and when they get KILL.
#pragma once

#include <algorithm>
#include <optional>

#include "lock/answers.hpp"
#include "lock/lease.hpp"

namespace dlock {

// What to do with processes that outlive the command (--stragglers).
enum class Stragglers { leave, wait, kill };

// The pause between sweeps after KILL, until all have exited: SIGCHLD reports exits, but
// only another sweep finds a process that was being started during the last one.
inline constexpr milliseconds sweep_again{20};

// Processes that have not exited by then fork faster than they can be killed, or hang in
// the kernel: the user gets a message that the lock is kept.
inline constexpr milliseconds report_stuck_after{1000};

struct SupervisionPlan {
  std::optional<milliseconds> timeout;  // of the command
  milliseconds kill_after{5000};        // from TERM to KILL
  bool kill_after_forwarded = false;    // even after a TERM that was forwarded
  Stragglers stragglers = Stragglers::leave;
  bool own_group = false;
  std::optional<LeaseTiming> lease;  // of a lease that can expire

  // Whether all of the command's processes may have to be found.
  bool needs_tree() const { return lease || timeout || stragglers != Stragglers::leave; }
};

// How the command's process ended, and why, if dlock ended it.
struct Ended {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  std::optional<Loss> lost;
  bool guardian_died = false;  // the guardian was killed, so the command was stopped
};

// From the wait status of waitpid(2).
Ended ended_with(int wait_status);

// Decides the supervisor's next action from what has happened so far. It reads no clock
// and touches no process.
class Ladder {
 public:
  enum class Action { wait, send_term, send_kill, done };

  Ladder(const SupervisionPlan& plan, Clock::time_point started);

  // What happened.
  void command_ended() { command_ended_ = true; }
  void tree_is_empty(bool empty) { tree_is_empty_ = empty; }
  void lease_lost(Loss loss, Clock::time_point now);
  // max(): it never expires.
  void lease_holds_until(Clock::time_point deadline) { deadline_ = deadline; }
  void owner_gone(Clock::time_point now);  // dlock, which renews it, has exited
  void forwarded(int signal, Clock::time_point now);

  // What to do now. `send_term` and `send_kill` concern every process of the tree. TERM
  // is sent once, KILL at each call: the next sweep finds what was being started during
  // the last one.
  Action next(Clock::time_point now);

  // When to call next() again if nothing happens before; max() if never.
  Clock::time_point next_check(Clock::time_point now) const;

  // Whether the rest of the lease is needed to stop the command in time.
  bool is_in_doubt(Clock::time_point now) const { return now >= in_doubt_at(); }

  // Whether the next action depends on the rest of the process tree.
  bool needs_tree() const {
    return sent_term_ || (command_ended_ && plan_.stragglers != Stragglers::leave);
  }

  // Whether TERM was sent to the whole tree.
  bool has_sent_term() const { return sent_term_; }

  bool timed_out() const { return timed_out_; }
  std::optional<Loss> lost() const { return lost_; }

 private:
  void kill_by(Clock::time_point moment) { kill_at_ = std::min(kill_at_, moment); }
  Clock::time_point before_deadline(milliseconds span) const;
  Clock::time_point kills_at() const;
  Clock::time_point in_doubt_at() const;

  SupervisionPlan plan_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point ends_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
  bool sent_term_ = false;  // TERM went to the tree: all of it has to go
  bool command_ended_ = false;
  bool tree_is_empty_ = false;
  bool timed_out_ = false;
  bool owner_gone_ = false;
  std::optional<Loss> lost_;
};

}  // namespace dlock
