// The queue of a lock: to whom it is promised, who leaves it, and what a waiter watches.
#pragma once

#include <vector>

#include "lock/store.hpp"
#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// How long the lock is kept for a waiter that was woken. A dead or stopped one is
// noticed at once; this is what one costs that only seems to run (a frozen cgroup).
constexpr milliseconds promise_holds{3000};

// The same for who comes next after one that let its promise lapse: what froze the one
// has often frozen those behind it too.
constexpr milliseconds promise_holds_after_lapse{500};

// What counts against a claim: leases, and promises that have not lapsed.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;

  void add(Mode mode) { ++(mode == Mode::shared ? shared : exclusive); }
  bool admits(Mode mode, unsigned slots) const {
    return mode == Mode::shared ? exclusive == 0 : shared == 0 && exclusive < slots;
  }
};

Occupancy occupancy_of(const State& state, Moment now);

// A promise further off than it can be was made on another clock (another time
// namespace), and is no promise.
bool is_promised(const Waiter& waiter, Moment now);

// Removes holders whose lease is over, and notes their runs as vanished. But for `self`,
// who is about to say how it has ended.
void remove_dead_holders(State& state, Moment now, const Lives& lives,
                         Consequences& consequences, const Token* self = nullptr);

// Removes those that died before they could ask why they were woken.
void remove_dead_answered(State& state, const Lives& lives, Consequences& consequences);

// A waiter wakes when the one right before it dies. It then has to find the next
// living one to watch, or it would wake again at once.
void remove_dead_predecessors(State& state, std::vector<Waiter>::iterator own,
                              const Lives& lives, Consequences& consequences);

// Promises what is free to the first waiters that fit, in order, and wakes them. Stops
// at the first that lives and does not fit: nobody overtakes. Those that are stopped are
// passed over where others stand behind them (to ask costs a look at /proc, some 30 µs);
// they are woken too, so that they ask for their places when they go on.
void promise_to_the_next(State& state, Moment now, const Lives& lives,
                         Consequences& consequences);

// Takes those out of the queue that wait for what another run has done or does.
void deduplicate_waiters(State& state, Moment now, Consequences& consequences);

// Takes those out of the queue that have waited to join the run that has ended.
void deduplicate_joined(State& state, const RunInfo& run, Consequences& consequences);

// What the one in front of the queue has to watch is not what it knew of.
void wake_the_head(const State& state, Consequences& consequences);

// Whom a queued waiter has to watch in order to notice in time what nobody will tell
// it. The others sleep until they are woken.
struct WaitsFor {
  // The waiter right before it. Its death or departure is the only event that can
  // leave this one in front without being told.
  const Party* predecessor = nullptr;
  // In front: everyone who holds, since any of them may vanish.
  std::vector<const Holder*> holders;
  // When to ask again at the latest.
  Clock::time_point ask_again;
};

// For the waiter `token` of `state`; an empty watch that asks again at once if it does
// not queue.
WaitsFor waits_for(const State& state, const Token& token, Moment now);

}  // namespace dlock::rules
