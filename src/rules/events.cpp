#include "rules/events.hpp"

#include <algorithm>

#include "rules/look.hpp"

namespace dlock::rules {
namespace {

// Holders of other programs have no fence.
bool is_same(const Holder& a, const Holder& b) {
  return a.fence == b.fence && (!a.party.foreign || a.party.token == b.party.token);
}

const Holder* same_in(const std::vector<Holder>& holders, const Holder& holder) {
  const auto found = std::find_if(holders.begin(), holders.end(),
                                  [&](const Holder& h) { return is_same(h, holder); });
  return found == holders.end() ? nullptr : &*found;
}

bool has_token(const std::vector<Waiter>& waiters, const Token& token) {
  return std::any_of(waiters.begin(), waiters.end(),
                     [&](const Waiter& w) { return w.party.token == token; });
}

unsigned free_of(const std::vector<Holder>& holders, std::uint32_t slots) {
  const auto mode = holders.empty() ? Mode::exclusive : holders.front().mode;
  return free_slots(mode, holders.size(), slots);
}

Event event_of(Event::Kind kind, const LockName& lock, Moment now) {
  Event event;
  event.time = now.wall;
  event.kind = kind;
  event.lock = lock;
  return event;
}

Event event_of(Event::Kind kind, const LockName& lock, const Holder& holder, Moment now) {
  auto event = event_of(kind, lock, now);
  event.CommandInfo::operator=(shown_party(holder));
  event.fence = holder.fence;
  return event;
}

Event event_of(Event::Kind kind, const LockName& lock, const Waiter& waiter, Moment now) {
  auto event = event_of(kind, lock, now);
  event.CommandInfo::operator=(shown_party(waiter));
  event.priority = waiter.priority;
  return event;
}

Event broken_event(const LockName& lock, const Holder& holder,
                   const std::optional<Taker>& taken_by, Moment now) {
  auto event = event_of(Event::Kind::broken, lock, holder, now);
  event.taken_by = taken_by;
  return event;
}

// The event for the end of `holder`, which no longer holds the lock.
Event event_of_end(const Holder& holder, const LockName& lock, const Cause& cause,
                   Moment now) {
  const auto ends_at = end_of(holder);
  const bool ran_out = ends_at && *ends_at <= now.boot;
  // The end of a detached lease that ran out was not its release.
  const bool is_over = ran_out && holder.ends_at;
  if (cause.released_by == holder.party.token && !is_over) {
    const bool lost = cause.end && cause.end->outcome == "lost" && !holder.broken;
    auto event =
        event_of(lost ? Event::Kind::lost : Event::Kind::released, lock, holder, now);
    if (cause.end) event.run = ended_run(holder, *cause.end, now);
    return event;
  }
  const bool broken = std::find(cause.broken.begin(), cause.broken.end(), holder.fence) !=
                      cause.broken.end();
  if (broken) return broken_event(lock, holder, cause.taken_by, now);
  const bool was_given_back = holder.ended || holder.party.foreign;
  auto event = event_of(was_given_back ? Event::Kind::released : Event::Kind::expired,
                        lock, holder, now);
  // It may not have been noticed at that time.
  if (ran_out) {
    event.time -= std::chrono::duration_cast<WallTime>(now.boot - *ends_at);
  }
  return event;
}

}  // namespace

std::vector<Event> events_between(const State& before, const State& after,
                                  const LockName& lock, const Cause& cause, Moment now) {
  std::vector<Event> events;
  auto holders = before.holders;
  // A claim on an unused lock may set another number of slots.
  auto slots = before.slots;
  const auto add = [&](Event event) {
    event.free = free_of(holders, slots);
    events.push_back(std::move(event));
  };
  for (const auto& holder : before.holders) {
    if (same_in(after.holders, holder) != nullptr) continue;
    std::erase_if(holders, [&](const Holder& h) { return is_same(h, holder); });
    add(event_of_end(holder, lock, cause, now));
  }
  for (const auto& waiter : before.waiters) {
    const bool was_granted =
        std::any_of(after.holders.begin(), after.holders.end(),
                    [&](const Holder& h) { return h.party.token == waiter.party.token; });
    if (was_granted || has_token(after.waiters, waiter.party.token)) continue;
    add(event_of(Event::Kind::left, lock, waiter, now));
  }
  slots = after.slots;
  for (const auto& holder : after.holders) {
    const auto* former = same_in(before.holders, holder);
    if (former == nullptr) {
      holders.push_back(holder);
      add(event_of(Event::Kind::granted, lock, holder, now));
    }
    const bool was_broken = former != nullptr && former->broken;
    if (holder.broken && !was_broken) {
      add(broken_event(lock, holder, holder.taken_by, now));
    }
  }
  for (const auto& waiter : after.waiters) {
    if (has_token(before.waiters, waiter.party.token)) continue;
    add(event_of(Event::Kind::queued, lock, waiter, now));
  }
  return events;
}

Event lost_event(const Holder& holder, const LockName& lock, const State& state,
                 Moment now) {
  auto event = event_of(Event::Kind::lost, lock, holder, now);
  event.free = free_of(state.holders, state.slots);
  return event;
}

}  // namespace dlock::rules
