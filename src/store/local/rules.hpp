// The rules of granting, as plain functions on the state of one lock.
//
// They are those of every store; what is the local store's own is that the kernel
// says who lives. Nothing here reads a clock, a file or a process: moments and lives
// come in as arguments, whom to wake goes out as a value.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "lock/store.hpp"
#include "store/local/state.hpp"

namespace dlock::local {

// How long the lock is kept for a waiter that was woken. A dead or stopped one is
// noticed at once; this is what one costs that only seems to run (a frozen cgroup).
constexpr milliseconds promise_holds{3000};

// The same for who comes next after one that let its promise lapse: what froze the one
// has often frozen those behind it too.
constexpr milliseconds promise_holds_after_lapse{500};

// What the kernel says of a holder's or waiter's processes.
class Lives {
 public:
  virtual ~Lives() = default;
  // Whether any process of it is left: its session is locked, or its command runs.
  virtual bool lives(const Holder& holder) const = 0;
  virtual bool lives(const Waiter& waiter) const = 0;
  // Whether it surely cannot answer now (SIGSTOP, Ctrl-Z), though it lives.
  virtual bool is_stopped(const Waiter& waiter) const = 0;
};

// What follows from a change, to be done once it is stored.
struct Consequences {
  std::vector<Session> wake;      // promised waiters, and heads whose view is stale
  std::vector<Session> buried;    // the dead, whose sockets are to be removed
  std::vector<RunInfo> vanished;  // runs whose last process went without a word
};

// A claim with what only the store's side of it knows.
struct Ask {
  const Claim& claim;
  const Party& party;
  Queue queue = Queue::stay_out;
};

// Grants, or says why not; see Store::ask. Dead holders are cleared first, promises
// of the dead and the late lapse, and a free lock is promised to the first waiters
// that fit, past stopped ones, before the claim is looked at.
Answer ask(State& state, const Ask& ask, Moment now, const Lives& lives,
           Consequences& consequences);

// The run of `holder`, which has ended so.
RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now);

// Takes `token` out of holders and waiters and promises what became free. If it held,
// `end` becomes the last run.
Release release(State& state, const Token& token, const std::optional<RunEnd>& end,
                Moment now, const Lives& lives, Consequences& consequences);

// Takes in how a run of `holder` has ended, who does not hold any more.
void note_lost(State& state, const Holder& holder, const RunEnd& end, Moment now);

// Sets the lease of the holder `token` to `ttl` from now; see Store::renew. A lease that
// its processes keep alive stays as it is.
Renewal renew(State& state, const Token& token, milliseconds ttl, Moment now,
              const Lives& lives, Consequences& consequences);

// Takes the lock from the holders that have one of `fences`; see Store::break_leases.
// Returns them as they were.
std::vector<Holder> break_leases(State& state, const std::vector<Fence>& fences,
                                 Moment now, const Lives& lives,
                                 Consequences& consequences);

// Clears holders that are gone, and promises what became free. Whether there are any to
// clear.
void tidy(State& state, Moment now, const Lives& lives, Consequences& consequences);
bool is_untidy(const State& state, Moment now, const Lives& lives);

// Why the lease that `token` was granted is lost; nothing if it holds.
std::optional<Loss> loss_of(const State& state, const Token& token);

// Notes the command of the holder `token`; nothing if it does not hold.
void note_command(State& state, const Token& token, const CommandProcess& command);

// Whom a queued waiter has to watch in order to notice in time what nobody will tell
// it. The others sleep until they are woken.
struct Watch {
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
Watch watch_for(const State& state, const Token& token, Moment now);

// The state as `status` shows it: without the dead, who are left where they are.
LockInfo info_of(const State& state, const LockName& lock, Moment now,
                 const Lives& lives);
HolderInfo info_of(const Holder& holder, Moment now);

// The runs that are going on, and those that are over though nobody has noted it yet.
std::vector<RunInfo> runs_of_holders(const State& state, Moment now, const Lives& lives);

// Whether nothing about this lock is worth keeping any more. Nobody may ever come to
// clear the dead.
bool is_out_of_use(const State& state, Moment now, const Lives& lives);

}  // namespace dlock::local
