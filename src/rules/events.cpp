#include "rules/events.hpp"

#include <algorithm>

#include "rules/look.hpp"
#include "rules/runs.hpp"

namespace dlock::rules {
namespace {

bool has_fence(const std::vector<Holder>& holders, Fence fence) {
  return std::any_of(holders.begin(), holders.end(),
                     [&](const Holder& h) { return h.fence == fence; });
}

bool has_token(const std::vector<Waiter>& waiters, const Token& token) {
  return std::any_of(waiters.begin(), waiters.end(),
                     [&](const Waiter& w) { return w.party.token == token; });
}

unsigned free_of(const std::vector<Holder>& holders, std::uint32_t slots) {
  const auto mode = holders.empty() ? Mode::exclusive : holders.front().mode;
  return free_slots(mode, holders.size(), slots);
}

Event event_of(Event::Kind kind, const LockName& lock, const Party& party, Moment now) {
  Event event;
  event.time = now.wall;
  event.kind = kind;
  event.lock = lock;
  event.host = party.host;
  event.pid = party.pid;
  event.user = party.user;
  return event;
}

Event event_of(Event::Kind kind, const LockName& lock, const Holder& holder, Moment now) {
  auto event = event_of(kind, lock, holder.party, now);
  event.fence = holder.fence;
  event.label = holder.label;
  event.command = holder.argv;
  return event;
}

Event event_of(Event::Kind kind, const LockName& lock, const Waiter& waiter, Moment now) {
  auto event = event_of(kind, lock, waiter.party, now);
  event.pid = shown_pid(waiter);
  return event;
}

Event broken_event(const LockName& lock, const Holder& holder,
                   const std::optional<Taker>& taken_by, Moment now) {
  auto event = event_of(Event::Kind::broken, lock, holder, now);
  event.taken_by = taken_by;
  return event;
}

// The event for the end of `holder`, which is gone.
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
  auto event = event_of(holder.ended ? Event::Kind::released : Event::Kind::expired, lock,
                        holder, now);
  // Nobody needs to have noticed it then.
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
    if (has_fence(after.holders, holder.fence)) continue;
    std::erase_if(holders, [&](const Holder& h) { return h.fence == holder.fence; });
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
    const auto former =
        std::find_if(before.holders.begin(), before.holders.end(),
                     [&](const Holder& h) { return h.fence == holder.fence; });
    if (former == before.holders.end()) {
      holders.push_back(holder);
      add(event_of(Event::Kind::granted, lock, holder, now));
    }
    const bool was_broken = former != before.holders.end() && former->broken;
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
