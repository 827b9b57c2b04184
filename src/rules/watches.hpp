// What a waiter has to watch, when it asks though nothing woke it, and for how long it
// can do without the store.
#pragma once

#include <optional>
#include <vector>

#include "rules/queue.hpp"

namespace dlock::rules {

// This many waiters in front check often, because one is left then if another dies
// together with the holder.
constexpr std::size_t in_front = 2;

// Those that are among the first to be promised the lock (`in_front`), and were not
// before the step. They have to be told: until then they check seldom.
std::vector<Session> come_to_front(const State& before, const State& after, Moment now);

// What a waiter must watch, because it is not notified of that. Waiters further back
// sleep until they are woken.
struct WaitsFor {
  // The waiter right before it. Only the death or departure of that one can leave this
  // waiter in front without a notification.
  const Party* predecessor = nullptr;
  // If it is in front: all holders, because any of them may vanish.
  std::vector<const Holder*> holders;
  // When to ask again at the latest.
  Clock::time_point ask_again;
};

// Where a waiter that sleeps is dear to the store: for how long this one can do without
// the store, because its turn cannot come before; nothing if it has to listen. Its place
// has to last longer.
std::optional<milliseconds> parked_for(const State& state, const Token& token,
                                       Moment now);

// Where writing is dear to the store: until when the place of a waiter that asks now has
// to last, `lasts` from now. It is `before` as long as that is fresh, so that nothing is
// written.
Clock::time_point place_until(const std::optional<Clock::time_point>& before,
                              std::size_t place, milliseconds lasts, Moment now);

// How often waiters check although nothing woke them. Everything that they wait for wakes
// them; this covers events that get lost (a datagram). Those behind the first two rely on
// those in front: the further back a waiter is, the less often it checks, so that the
// total number of checks stays small.
struct SafetyNet {
  milliseconds of_first_two{1000};
  milliseconds per_place{1000};  // behind them
  milliseconds longest{20'000};
  milliseconds until_pace_is_known{20'000};  // of those that could be parked
  // Each up to this place waits twice as long as the one before it: it may be the next
  // one without having heard of it, if those before it die together with the holder.
  std::size_t doubles_to = 2;
  // If set, they also check when the lease of a holder ends, as far as they know, because
  // all before them may have died together with it. Those in front do so no sooner than
  // the first two, and those far back no sooner than after this time.
  std::optional<milliseconds> at_lease_end_after{};
};

// Where a check is dear to the store.
constexpr SafetyNet wide_safety_net{
    milliseconds(2500),  milliseconds(7500), place_lasts / 2, milliseconds(5000), 4,
    milliseconds(25'000)};

// For the waiter `token` of `state`. If it is not in the queue, there is nothing to watch
// and it has to ask again at once.
WaitsFor waits_for(const State& state, const Token& token, Moment now,
                   const SafetyNet& net = {});

}  // namespace dlock::rules
