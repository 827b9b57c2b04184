#include "rules/granting.hpp"

#include <algorithm>

#include "rules/look.hpp"
#include "rules/queue.hpp"

namespace dlock::rules {
namespace {

std::uint32_t free_slot(const State& state) {
  std::uint32_t slot = 0;
  while (std::ranges::any_of(state.holders,
                             [&](const Holder& h) { return h.slot == slot; })) {
    ++slot;
  }
  return slot;
}

Grant grant_of(const Holder& holder, Moment now) {
  return {holder.fence, holder.slot, now.boot,
          end_of(holder).value_or(Clock::time_point::max()), holder.broken};
}

// Sets how long the lease lasts from now.
void set_lease(Holder& holder, const Ask& ask, Moment now) {
  const auto& claim = ask.claim;
  const bool clock_ends_all = ask.place_lasts.has_value();
  const auto lasts = clock_ends_all ? claim.ttl + claim.lock_delay : claim.ttl;
  if (clock_ends_all) holder.lease = lasts;
  if (!claim.attached) {
    holder.ends_at = later(now.boot, lasts);
  } else if (clock_ends_all) {
    holder.lives_until = later(now.boot, lasts);
  }
}

void set_place(Waiter& waiter, const Ask& ask, Moment now) {
  if (ask.place_lasts) waiter.lives_until = later(now.boot, *ask.place_lasts);
}

// The fields that a program which does not know them may have dropped.
void set_newest_fields(Waiter& waiter, const Claim& claim) {
  waiter.priority = claim.priority;
  waiter.spreads = claim.spreads;
  waiter.Description::operator=(claim);
}

Holder& grant_to(State& state, const Ask& ask, Moment now) {
  const auto by_clock = std::max<std::int64_t>(now.wall.count(), 0);
  const auto before = last_grant(state);
  state.last_fence.number =
      std::max({state.last_fence.number + 1, ask.claim.fence_floor.number + 1,
                static_cast<std::uint64_t>(by_clock)});
  state.used = now.wall;
  state.restored.reset();
  state.last_claim = ask.claim.token;
  Holder holder;
  holder.after = before;
  holder.party = ask.party;
  holder.mode = ask.claim.mode;
  holder.slot = ask.claim.mode == Mode::shared ? 0 : free_slot(state);
  holder.fence = state.last_fence;
  holder.since = now.wall;
  holder.granted_at = now.boot;
  holder.Description::operator=(ask.claim);
  holder.period = ask.claim.period;
  holder.argv = ask.claim.command;
  holder.counts =
      ask.claim.attached && ask.claim.mode == Mode::exclusive && ask.claim.slots == 1;
  holder.min_hold = ask.claim.min_hold;
  if (!ask.claim.attached) {
    // The process that acquired it exits, and only the clock ends the lease.
    holder.party.session = 0;
    if (ask.claim.on_behalf_of != 0) holder.party.pid = ask.claim.on_behalf_of;
    holder.for_pid = ask.claim.for_pid;
    holder.ttl = ask.claim.ttl;
  }
  set_lease(holder, ask, now);
  return state.holders.emplace_back(std::move(holder));
}

// With several holders, the first waiter has to watch a new one. With one holder it
// watches that one already, because it was right behind it.
void tell_of_grant(const Step& step) {
  const auto& state = step.state;
  const auto& holder = state.holders.back();
  if (state.slots != 1 || holder.mode != Mode::exclusive) wake_first_waiter(step);
  if (holder.counts) deduplicate_waiters(step);
}

// Adopts the claim's number of slots if no other claim uses another one.
bool agrees_on_slots(State& state, const Claim& claim) {
  const auto uses_it = [&](const auto& other) {
    return !other.party.foreign && other.party.token != claim.token;
  };
  const bool is_used = std::ranges::any_of(state.holders, uses_it) ||
                       std::ranges::any_of(state.waiters, uses_it);
  if (!is_used) state.slots = claim.slots;
  return state.slots == claim.slots;
}

// Returns nothing if the command has to run.
std::optional<Answer> answer_to_dedupe(const Step& step, const Ask& ask) {
  auto& state = step.state;
  if (const auto above = blocking_outer_run(state, ask.claim))
    return HeldByOuterRun{*above};
  auto run = counting_run(state, ask.claim.dedupe->as_of_now(), ask.queue, step.now);
  if (!run) return std::nullopt;
  const auto own = waiter_of(state, ask.claim.token);
  if (own != state.waiters.end()) {
    // It may just have been promised the lock.
    std::erase(step.then.wake, ask.party.session);
    state.waiters.erase(own);
    promise_to_the_next(step);
  }
  return Deduplicated{std::move(*run)};
}

// The grant, unless a waiter takes the lock from it at once. A lease whose holder cannot
// be notified is left for the replacing waiters to take.
Answer granted(const Step& step, const Ask& ask) {
  auto& holder = grant_to(step.state, ask, step.now);
  if (const auto* taker = replacer(step.state, step.now, step.liveness)) {
    holder.broken = ask.claim.attached;
    if (holder.broken) {
      holder.taken_by = replacing(taker->party);
    } else {
      for (const auto& waiter : step.state.waiters) {
        if (waiter.replaces) step.then.wake.push_back(waiter.party.session);
      }
    }
  }
  // The asking process need not be woken.
  std::erase(step.then.wake, ask.party.session);
  const auto grant = grant_of(holder, step.now);
  tell_of_grant(step);
  return grant;
}

Answer answer_to_waiter(const Step& step, const Ask& ask) {
  auto& state = step.state;
  auto own = waiter_of(state, ask.claim.token);
  const bool replaces = ask.claim.replaces && !own->promised_until;
  if (replaces && replace_holders(step, ask.claim, ask.party)) {
    promise_to_the_next(step);
    own = waiter_of(state, ask.claim.token);
  }
  if (!own->promised_until) {
    if (ask.queue == Queue::refuse) ++state.refused;
    return busy_answer(state, ask.claim.token, step.now);
  }
  // A more important one that came since the promise does not watch this one yet.
  const bool is_overtaken =
      ask.claim.slots == 1 && ask.claim.mode == Mode::exclusive &&
      std::any_of(state.waiters.begin(), own,
                  [](const Waiter& waiter) { return !waiter.passed_over; });
  state.waiters.erase(own);
  if (is_overtaken) wake_first_waiter(step);
  return granted(step, ask);
}

Answer answer_to_newcomer(const Step& step, const Ask& ask) {
  auto& state = step.state;
  const Claim& claim = ask.claim;
  bool enters = can_enter(state, claim, ask.party.host, step.now);
  if (!enters) {
    if (const auto above = blocking_outer_run(state, claim))
      return HeldByOuterRun{*above};
    if (ask.queue == Queue::stay_out) return busy_answer(state, claim.token, step.now);
    if (ask.queue == Queue::refuse || is_full(state, claim, step.liveness)) {
      ++state.refused;
      return busy_answer(state, claim.token, step.now);
    }
  }
  const bool supersedes = claim.supersedes && supersede(step, ask.party);
  const bool replaces =
      !enters && claim.replaces && replace_holders(step, claim, ask.party);
  if (supersedes || replaces) {
    promise_to_the_next(step);
    enters = can_enter(state, claim, ask.party.host, step.now);
  }
  if (enters) return granted(step, ask);
  Waiter waiter;
  waiter.party = ask.party;
  waiter.mode = claim.mode;
  waiter.since = step.now.wall;
  waiter.queued_at = step.now.boot;
  set_place(waiter, ask, step.now);
  if (claim.dedupe) waiter.dedupe = claim.dedupe->as_of_now();
  waiter.supersedes = claim.supersedes;
  waiter.replaces = claim.replaces;
  waiter.on_behalf_of = claim.on_behalf_of;
  set_newest_fields(waiter, claim);
  enqueue(state, std::move(waiter));
  return busy_answer(state, claim.token, step.now);
}

template <typename IsMeant>
std::vector<Holder> take_from(const Step& step, IsMeant is_meant, const Taker& taker) {
  auto& state = step.state;
  std::vector<Holder> found;
  for (auto& holder : state.holders) {
    if (!is_meant(holder)) continue;
    found.push_back(holder);
    if (!holder.broken || taker.forced) holder.taken_by = taker;
    holder.broken = true;
    if (is_by_hand(holder)) {
      step.then.vanished.push_back(lease_by_hand(holder, step.now));
    } else if (taker.forced && !holder.ended) {
      record_run(state, forced_run(holder, taker, step.now));
      step.then.vanished.push_back(*state.last_run);
    }
  }
  // A lease without a session has no process to notify.
  std::erase_if(state.holders, [&](const Holder& h) {
    return is_meant(h) && (h.party.session == 0 || taker.forced);
  });
  return found;
}

}  // namespace

Answer ask(const Step& step, const Ask& ask) {
  auto& state = step.state;
  const Claim& claim = ask.claim;
  remove_dead_holders(step);
  remove_dead_answered(step);

  if (const auto own = holder_of(state, claim.token); own != state.holders.end()) {
    set_lease(*own, ask, step.now);
    return grant_of(*own, step.now);
  }
  if (auto own = waiter_of(state, claim.token); own != state.waiters.end()) {
    // A late waiter gets its place back as long as it was not promised to another one.
    if (own->priority != claim.priority) {
      auto waiter = std::move(*own);
      state.waiters.erase(own);
      waiter.priority = claim.priority;
      own = enqueue(state, std::move(waiter));
    }
    set_newest_fields(*own, claim);
    const bool gives_back = own->spreads && has_slot(state, own->party.host);
    if (gives_back || !is_promised(*own, step.now)) own->promised_until.reset();
    own->passed_over = false;
    own->parked_until.reset();
    set_place(*own, ask, step.now);
    remove_dead_predecessors(step, own);
  }
  promise_to_the_next(step);
  if (const auto own = answered_of(state, claim.token); own != state.answered.end()) {
    if (own->newer) return *own->newer;
    if (!has_come_to_nothing(state, own->by)) return Deduplicated{own->by};
    state.answered.erase(own);  // and it waits again
  }
  if (!agrees_on_slots(state, claim)) return SlotsDiffer{state.slots};
  if (claim.dedupe) {
    if (auto answer = answer_to_dedupe(step, ask)) return std::move(*answer);
  }
  return waiter_of(state, claim.token) == state.waiters.end()
             ? answer_to_newcomer(step, ask)
             : answer_to_waiter(step, ask);
}

std::vector<Holder> break_leases(const Step& step, const std::vector<Fence>& fences,
                                 const Taker& taker) {
  remove_dead_holders(step);
  remove_dead_answered(step);
  auto found = take_from(
      step,
      [&](const Holder& holder) {
        return std::ranges::find(fences, holder.fence) != fences.end();
      },
      taker);
  promise_to_the_next(step);
  return found;
}

std::vector<Fence> fences_of(const std::vector<Holder>& holders) {
  std::vector<Fence> fences;
  fences.reserve(holders.size());
  for (const auto& holder : holders) fences.push_back(holder.fence);
  return fences;
}

bool replace_holders(const Step& step, const Claim& claim, const Party& taker) {
  auto taken = take_from(
      step, [&](const Holder& holder) { return !is_outer_run(claim, holder); },
      replacing(taker));
  for (auto& holder : taken) step.then.broken.push_back(std::move(holder));
  return !taken.empty();
}

Taker replacing(const Party& taker) { return {taker.user, taker.host, true}; }

const Waiter* replacer(const State& state, Moment now, const Liveness& liveness) {
  const auto found = std::ranges::find_if(state.waiters, [&](const Waiter& waiter) {
    return waiter.replaces && !waiter.passed_over && !is_promised(waiter, now) &&
           liveness.is_alive(waiter);
  });
  return found == state.waiters.end() ? nullptr : &*found;
}

bool supersede(const Step& step, const Party& newer) {
  auto& state = step.state;
  const auto superseded = std::erase_if(state.waiters, [&](const Waiter& waiter) {
    if (!waiter.supersedes) return false;
    if (step.liveness.is_alive(waiter)) ++state.superseded;
    state.answered.push_back({waiter, {}, Superseded{newer.host, newer.pid}});
    step.then.wake.push_back(waiter.party.session);
    return true;
  });
  // The new first waiter has to watch what the removed one watched.
  if (superseded > 0) wake_first_waiter(step);
  return superseded > 0;
}

}  // namespace dlock::rules
