// When the command's processes are told to end, and when they are made to.
#pragma once

#include <optional>

#include "lock/lease_watcher.hpp"
#include "lock/timing.hpp"

namespace dlock {

// What becomes of processes that outlive the command's own.
enum class Stragglers { leave, wait, kill };

// After KILL, until all is gone: ends are told by SIGCHLD, but a process that was
// being started during a sweep is only found by another one.
inline constexpr milliseconds sweep_again{20};

// Who is not gone by then starts new processes faster than they can be ended, or hangs in
// the kernel: the user is told that the lock is kept.
inline constexpr milliseconds fled_after{1000};

struct SupervisionPlan {
  std::optional<milliseconds> timeout;  // of the command
  milliseconds kill_after{5000};        // from TERM to KILL
  bool kill_after_forwarded = false;    // also after a TERM that was passed on
  Stragglers stragglers = Stragglers::leave;
  bool own_group = false;
  std::optional<LeaseTiming> lease;  // of one that can run out

  // Whether all of the command's processes may have to be found, whatever becomes of it.
  bool needs_tree() const { return lease || timeout || stragglers != Stragglers::leave; }
};

// How the command's process ended, and why, if it was not by itself.
struct Ended {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool timed_out = false;
  std::optional<Loss> lost;
  bool guardian_died = false;  // somebody killed it, and the command was ended
};

// What waitpid(2) said of the command.
Ended ended_with(int wait_status);

// What the supervisor does next, decided from what has happened so far. No clock and
// no process in here: moments come in, actions go out.
class Ladder {
 public:
  enum class Action { wait, send_term, send_kill, done };

  Ladder(const SupervisionPlan& plan, Clock::time_point started);

  // What happened.
  void command_ended() { command_ended_ = true; }
  void tree_is_empty(bool empty) { tree_is_empty_ = empty; }
  void lease_lost(Loss loss, Clock::time_point now);
  void lease_holds_until(Clock::time_point deadline);  // max(): whatever happens
  void owner_gone(Clock::time_point now);              // who renews the lease was killed
  void forwarded(int signal, Clock::time_point now);

  // What to do now. `send_term` and `send_kill` are for every process of the tree.
  // TERM is said once, KILL at each look: what is being started during a sweep is
  // found by the next.
  Action next(Clock::time_point now);

  // When to look again though nothing happens; max() if never.
  Clock::time_point look_again(Clock::time_point now) const;

  // Whether what is left of the lease is needed for ending the command in time.
  bool is_in_doubt(Clock::time_point now) const;

  // Whether it depends on the rest of the tree what to do next.
  bool needs_tree() const;

  // Whether the tree was told to end, all of it.
  bool has_termed() const { return termed_; }

  bool timed_out() const { return timed_out_; }
  std::optional<Loss> lost() const { return lost_; }

 private:
  void kill_by(Clock::time_point moment);
  Clock::time_point before_deadline(milliseconds span) const;
  Clock::time_point kills_at() const;
  Clock::time_point in_doubt_at() const;

  SupervisionPlan plan_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point ends_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
  bool termed_ = false;  // TERM went to the tree: all of it has to go
  bool command_ended_ = false;
  bool tree_is_empty_ = false;
  bool timed_out_ = false;
  bool owner_gone_ = false;
  std::optional<Loss> lost_;
};

}  // namespace dlock
