#include "rules/look.hpp"

#include <algorithm>

#include "rules/queue.hpp"

namespace dlock::rules {
namespace {

milliseconds whole_milliseconds(nanoseconds span) {
  return std::chrono::duration_cast<milliseconds>(std::max(span, nanoseconds(0)));
}

// How many of the slots are free if there are so many holders.
unsigned free_slots(Mode mode, std::size_t holders, unsigned slots) {
  if (mode == Mode::shared) return holders > 0 ? 0 : slots;
  return slots - static_cast<unsigned>(std::min<std::size_t>(holders, slots));
}

}  // namespace

void set_slots(LockInfo& lock, unsigned slots) {
  const bool in_use = !lock.holders.empty() || !lock.waiters.empty();
  lock.slots = in_use ? slots : 1;
  lock.free = free_slots(lock.mode, lock.holders.size(), lock.slots);
}

Busy busy_answer(const State& state, const Token& token, Moment now) {
  Busy answer;
  for (const auto& holder : state.holders) answer.holders.push_back(info_of(holder, now));
  for (const auto& waiter : state.waiters) {
    ++answer.queued;
    if (waiter.party.token == token) answer.place = answer.queued;
  }
  return answer;
}

namespace {

// The pid to show for a waiter.
std::int32_t shown_pid(const Waiter& waiter) {
  return waiter.on_behalf_of != 0 ? waiter.on_behalf_of : waiter.party.pid;
}

template <typename Entry>
CommandInfo party_with(const Entry& entry, std::int32_t pid) {
  CommandInfo party;
  party.Owner::operator=(entry.party);
  party.Description::operator=(entry);
  party.pid = pid;
  party.command = entry.argv;
  return party;
}

}  // namespace

HolderInfo info_of(const Holder& holder, Moment now) {
  HolderInfo info;
  info.foreign = holder.party.foreign;
  info.fence = holder.fence;
  info.slot = holder.slot;
  info.CommandInfo::operator=(party_with(holder, holder.party.pid));
  info.period = holder.period;
  info.since = holder.since;
  info.held = whole_milliseconds(now.boot - holder.granted_at);
  info.attached = holder.party.session != 0;
  info.for_pid = holder.for_pid;
  info.run_ended = holder.ended;
  info.broken = holder.broken;
  info.is_expiry_unknown = holder.ends_unknown;
  const auto ends_at = end_of(holder);
  if (ends_at) info.expires_in = whole_milliseconds(*ends_at - now.boot);
  return info;
}

LockInfo info_of(const State& state, const LockName& lock, Moment now,
                 const Liveness& liveness) {
  LockInfo info;
  info.lock = lock;
  info.last_run = state.last_run;
  info.last_success = last_success_of(state.runs, state.past.last_success);
  info.past = state.past;
  info.now = now.wall;
  info.refused = state.refused;
  info.superseded = state.superseded;
  info.known = state.used > WallTime(0) || !state.waiters.empty() || state.last_run;
  for (const auto& holder : state.holders) {
    if (is_over(holder, now, liveness)) {
      if (may_have_run(holder)) info.last_run = run_of_gone(holder);
      continue;
    }
    info.mode = holder.mode;
    info.holders.push_back(info_of(holder, now));
  }
  for (const auto& waiter : state.waiters) {
    if (!liveness.is_alive(waiter)) continue;
    WaiterInfo shown;
    shown.Owner::operator=(waiter.party);
    shown.Description::operator=(waiter);
    shown.pid = shown_pid(waiter);
    shown.priority = waiter.priority;
    shown.since = waiter.since;
    shown.waiting = whole_milliseconds(now.boot - waiter.queued_at);
    info.waiters.push_back(std::move(shown));
  }
  set_slots(info, state.slots);
  return info;
}

bool is_untidy(const State& state, Moment now, const Liveness& liveness) {
  return std::ranges::any_of(state.holders, [&](const Holder& holder) {
    return is_over(holder, now, liveness);
  });
}

namespace {

// As much of the state as a look at the lock tells. Its waiters are left out.
State state_in(const LockInfo& lock) {
  State state;
  state.slots = lock.slots;
  state.past = lock.past;
  for (const auto& shown : lock.holders) {
    Holder holder;
    holder.party.Owner::operator=(shown);
    holder.Description::operator=(shown);
    holder.party.foreign = shown.foreign;
    holder.mode = lock.mode;
    holder.fence = shown.fence;
    holder.since = shown.since;
    holder.counts = shown.attached && !shown.foreign && lock.slots == 1 &&
                    lock.mode == Mode::exclusive;
    holder.ended = shown.run_ended;
    holder.broken = shown.broken;
    state.holders.push_back(std::move(holder));
  }
  return state;
}

}  // namespace

std::optional<Answer> foregone_answer(const LockInfo& lock, const Claim& claim,
                                      Queue queue, const std::string& host) {
  const auto state = state_in(lock);
  const Moment now{Clock::now(), lock.now};
  if (!state.holders.empty() && state.slots != claim.slots) return std::nullopt;
  const auto above = blocking_outer_run(state, claim);
  if (above && (claim.dedupe || !can_enter(state, claim, host, now))) {
    return HeldByOuterRun{*above};
  }
  if (!claim.dedupe) return std::nullopt;
  auto run = counting_run(state, claim.dedupe->as_of_now(), queue, now);
  return run ? std::optional<Answer>(Deduplicated{std::move(*run)}) : std::nullopt;
}

std::optional<Taker> forced_by(const State& state, Fence fence) {
  for (const auto& run : state.runs) {
    if (run.fence == fence) return dlock::forced_by(run);
  }
  return std::nullopt;
}

bool is_out_of_use(const State& state, Moment now, const Liveness& liveness) {
  if (now.wall - state.used <= WallTime(run_retention)) return false;
  const bool held = std::ranges::any_of(state.holders, [&](const Holder& holder) {
    return !is_over(holder, now, liveness);
  });
  const bool waited_for = std::ranges::any_of(
      state.waiters, [&](const Waiter& waiter) { return liveness.is_alive(waiter); });
  return !held && !waited_for;
}

namespace {

// Holders of other programs have no fence.
bool is_same(const Holder& a, const Holder& b) {
  return a.fence == b.fence && (!a.party.foreign || a.party.token == b.party.token);
}

const Holder* same_in(const std::vector<Holder>& holders, const Holder& holder) {
  const auto found =
      std::ranges::find_if(holders, [&](const Holder& h) { return is_same(h, holder); });
  return found == holders.end() ? nullptr : &*found;
}

bool has_token(const std::vector<Waiter>& waiters, const Token& token) {
  return std::ranges::any_of(waiters,
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
  event.CommandInfo::operator=(party_with(holder, holder.party.pid));
  event.fence = holder.fence;
  return event;
}

Event event_of(Event::Kind kind, const LockName& lock, const Waiter& waiter, Moment now) {
  auto event = event_of(kind, lock, now);
  event.CommandInfo::operator=(party_with(waiter, shown_pid(waiter)));
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
  const bool broken = std::ranges::find(cause.broken, holder.fence) != cause.broken.end();
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
    const bool was_granted = std::ranges::any_of(after.holders, [&](const Holder& h) {
      return h.party.token == waiter.party.token;
    });
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
