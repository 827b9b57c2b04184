// Who may enter a lock and its queue, and the queue: promises to waiters, and departures.
#pragma once

#include <optional>
#include <vector>

#include "lock/lease.hpp"
#include "rules/step.hpp"

namespace dlock::rules {

// How long the lock is reserved for a waiter that was woken. A dead or stopped waiter is
// noticed at once; this is the delay caused by one that only seems to run (a frozen
// cgroup).
constexpr milliseconds promise_holds{3000};

// The same for the next waiter after one that let its promise lapse: what froze that one
// has often also frozen those behind it.
constexpr milliseconds promise_holds_after_lapse{500};

// Where the clock ends places: how long one usually lasts from when its waiter asks, and
// the longest that is ever asked for.
constexpr milliseconds place_lasts{90'000};
constexpr milliseconds longest_place{20 * 60'000};

// The leases, and the promises that have not lapsed, that count against a claim.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;

  void add(Mode mode) { ++(mode == Mode::shared ? shared : exclusive); }
  void add(const Party& party, Mode mode) {
    add(mode);
    if (party.foreign) ++shared;  // nothing fits beside it
  }
  bool admits(Mode mode, unsigned slots) const {
    return mode == Mode::shared ? exclusive == 0 : shared == 0 && exclusive < slots;
  }
};

Occupancy occupancy_of(const State& state, Moment now);

// Whether there is room for this waiter.
bool fits(const State& state, const Occupancy& occupancy, const Waiter& waiter);

// Whether the waiter has a valid promise. One that ends too far in the future was made on
// another clock (another time namespace) and does not count.
bool is_promised(const Waiter& waiter, Moment now);

// Whether the waiter is away, and comes back by itself.
bool is_parked(const Waiter& waiter, Moment now);

// Whether a run on this host holds a slot. One that spreads and was promised another
// one before that has to give the promise back.
bool has_slot(const State& state, const std::string& host);

// Whether one on this host that spreads (Claim::spreads) has to let others go first.
bool is_crowded(const State& state, const std::string& host, Moment now);

// Whether the claim, of one on this host, can be granted the lock now: there is room, and
// it overtakes no waiter.
bool can_enter(const State& state, const Claim& claim, const std::string& host,
               Moment now);

// Adds the waiter to the queue, behind those with the same priority.
std::vector<Waiter>::iterator enqueue(State& state, Waiter waiter);

// Whether the holder is an outer run of the claim.
bool is_outer_run(const Claim& claim, const Holder& holder);

// The grant of an outer run for which the claim would wait forever.
std::optional<Fence> blocking_outer_run(const State& state, const Claim& claim);

// Whether the queue is too long for the claim (Claim::max_queue). Waiters that it would
// supersede do not count, nor do dead ones.
bool is_full(const State& state, const Claim& claim, const Liveness& liveness);

// Removes dead waiters right before `own`. A waiter wakes when the one before it dies;
// then it has to watch the next living one, or it would wake again at once.
void remove_dead_predecessors(const Step& step, std::vector<Waiter>::iterator own);

// Promises free slots to the first waiters that fit, in order, and wakes them. Stops at
// the first living waiter that does not fit, so none overtakes another. A stopped waiter
// is skipped if others are behind it (the check reads /proc, some 30 µs); it is woken as
// well, so that it asks for its place when it continues.
void promise_to_the_next(const Step& step);

// Removes the waiters for which the run of another claim counts (Claim::dedupe), and
// wakes them.
void deduplicate_waiters(const Step& step);

// Removes the waiters that wait to join the run that has ended, and wakes them.
void deduplicate_joined(const Step& step, const RunInfo& run);

// Wakes the first waiter, because the holders it watches have changed.
void wake_first_waiter(const Step& step);

}  // namespace dlock::rules
