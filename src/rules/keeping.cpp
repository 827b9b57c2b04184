#include "rules/keeping.hpp"

#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"

namespace dlock::rules {
namespace {

// Until when the lock stays taken though the run of the holder has ended.
std::optional<Clock::time_point> stays_until(const Holder& holder, const RunEnd& end) {
  const auto until = later(holder.granted_at, holder.min_hold);
  if (end.leaves_lease && holder.lives_until) return std::max(until, *holder.lives_until);
  return holder.broken ? std::nullopt : std::optional(until);
}

// It then has no owner: the claim of the old holder would be a new one.
void keep_ended(Holder& holder, Clock::time_point until) {
  holder.ended = true;
  holder.ends_at = until;
  holder.lives_until.reset();
  holder.broken = false;
  holder.taken_by.reset();
  if (holder.lease > milliseconds(0)) {
    holder.lease = std::max(holder.lease, holder.min_hold);
  }
  holder.party.token = {};
  holder.party.session = 0;
  holder.command = 0;
  holder.command_after = 0;
  holder.command_before = 0;
}

GrantId id_of(const Holder& holder) { return {holder.party.token, holder.fence}; }

bool has(const std::vector<GrantId>& grants, const GrantId& one) {
  return std::ranges::find(grants, one) != grants.end();
}

// What is known of the leases that may be restored. Each grant first removes those that
// are over, so all that are still there ended after the last grant.
Restored restorable(const Step& step) {
  auto& state = step.state;
  auto known = state.restored.value_or(Restored{state.last_fence, {}});
  for (const auto& holder : state.holders) {
    const bool has_vanished = !holder.ended && is_over(holder, step.now, step.liveness);
    const auto id = id_of(holder);
    if (has_vanished && !has(known.vanished, id)) known.vanished.push_back(id);
  }
  return known;
}

// Whether the last grant is the one that this one came after, and not a later one.
bool is_next(const GrantId& last, const Holder& granted) {
  return last.claim != Token{} && last == granted.after;
}

// Whether another claim may have been granted the lock since. Not decided by which fence
// is greater: the clock of a server that took over or has lost its data may be behind. A
// server that has recorded no grant at all may have forgotten others as well.
bool was_granted_since(const GrantId& last, const Restored& known,
                       const Holder& granted) {
  return last.fence.number != 0 && last != id_of(granted) && !is_next(last, granted) &&
         !has(known.vanished, id_of(granted));
}

bool has_room_for(const State& state, const Claim& claim, std::uint32_t slot,
                  Moment now) {
  const bool is_slot_taken =
      claim.mode == Mode::exclusive &&
      std::ranges::any_of(state.holders,
                          [&](const Holder& holder) { return holder.slot == slot; });
  const bool is_unused = state.holders.empty() && state.waiters.empty();
  return !is_slot_taken && (is_unused || state.slots == claim.slots) &&
         occupancy_of(state, now).admits(claim.mode, claim.slots);
}

// The run has not vanished after all.
void take_back_run(const Step& step, Fence fence) {
  auto& state = step.state;
  const auto is_own = [&](const RunInfo& run) {
    return run.fence == fence && !run.ended;
  };
  std::erase_if(state.runs, is_own);
  std::erase_if(step.then.vanished, is_own);
  if (!state.last_run || !is_own(*state.last_run)) return;
  const auto before = std::ranges::find_if(
      state.runs, [](const RunInfo& run) { return !is_by_hand(run); });
  state.last_run =
      before == state.runs.end() ? std::nullopt : std::optional<RunInfo>(*before);
}

// Records the end of the run of `holder`, which no longer holds the lock. That the lock
// was freed by force is kept.
void record_loss(State& state, const Holder& holder, const RunEnd& end, Moment now) {
  auto run = ended_run(holder, end, now);
  for (const auto& former : state.runs) keep_forced_reason(former, run);
  record_run(state, run);
}

Renewal restore(const Step& step, const Claim& claim, const Holder& granted) {
  auto& state = step.state;
  // Where the state is an older one, the claim may still wait.
  std::erase_if(state.waiters, [&](const Waiter& waiter) {
    return waiter.party.token == granted.party.token;
  });
  auto known = restorable(step);
  const auto last = last_grant(state);
  remove_dead_holders(step);
  if (!can_be_restored(state, claim, granted, step.now, known))
    return Renewal::taken_over;
  if (is_next(last, granted)) {
    known.granted = granted.fence;
    state.last_claim = granted.party.token;
  }
  take_back_run(step, granted.fence);
  state.slots = claim.slots;
  state.last_fence = std::max(state.last_fence, granted.fence);
  state.used = step.now.wall;
  state.restored = known;
  const auto later_one = std::ranges::find_if(
      state.holders, [&](const Holder& other) { return other.fence > granted.fence; });
  auto& holder = *state.holders.insert(later_one, granted);
  // Its client was not told that it has to end, or it would not ask.
  holder.broken = false;
  holder.taken_by.reset();
  // Not later than now by a clock that is behind that of the grant.
  holder.since = std::min(holder.since, step.now.wall);
  holder.granted_at = std::min(holder.granted_at, step.now.boot);
  holder.lease = claim.ttl + claim.lock_delay;
  holder.lives_until = later(step.now.boot, holder.lease);
  return Renewal::reclaimed;
}

}  // namespace

bool can_be_restored(const State& state, const Claim& claim, const Holder& granted,
                     Moment now, const Restored& known) {
  return !was_granted_since(last_grant(state), known, granted) &&
         has_room_for(state, claim, granted.slot, now);
}

Release release(const Step& step, const Token& token, const std::optional<RunEnd>& end) {
  auto& state = step.state;
  auto outcome = Release::not_ours;
  bool kept = false;
  // First, so that a vanished run does not become the last run.
  remove_dead_holders(step, end ? &token : nullptr);
  remove_dead_answered(step);
  if (const auto own = holder_of(state, token); own != state.holders.end()) {
    const bool is_left = end && end->leaves_lease && own->lives_until;
    outcome = is_left ? Release::left : Release::released;
    if (end) {
      const auto run = ended_run(*own, *end, step.now);
      record_run(state, run);
      if (end->is_shared && run.counts) deduplicate_joined(step, run);
    } else if (is_by_hand(*own)) {
      step.then.vanished.push_back(lease_by_hand(*own, step.now));
    }
    state.used = step.now.wall;
    const auto until = end ? stays_until(*own, *end) : std::nullopt;
    kept = until && *until > step.now.boot;
    if (kept) {
      keep_ended(*own, *until);
    } else {
      state.holders.erase(own);
    }
    deduplicate_waiters(step);
  }
  if (const auto own = waiter_of(state, token); own != state.waiters.end()) {
    state.waiters.erase(own);
  }
  if (const auto own = answered_of(state, token); own != state.answered.end()) {
    state.answered.erase(own);
  }
  promise_to_the_next(step);
  if (kept) wake_first_waiter(step);
  return outcome;
}

milliseconds ttl_to_set(State& state, const Claim& claim) {
  const auto own = holder_of(state, claim.token);
  return claim.keeps_ttl && own != state.holders.end() ? own->ttl : claim.ttl;
}

Renewal renew(const Step& step, const Token& token, milliseconds lasts) {
  auto& state = step.state;
  const auto own = holder_of(state, token);
  if (own == state.holders.end() || is_over(*own, step.now, step.liveness)) {
    const bool others = std::ranges::any_of(state.holders, [&](const Holder& holder) {
      return holder.party.token != token && !is_over(holder, step.now, step.liveness);
    });
    return others && state.slots == 1 ? Renewal::taken_over : Renewal::gone;
  }
  if (auto& ends_at = own->ends_at ? own->ends_at : own->lives_until) {
    const auto former = std::exchange(*ends_at, later(step.now.boot, lasts));
    if (*ends_at < former) wake_first_waiter(step);
    if (own->lease > milliseconds(0)) own->lease = lasts;
  }
  return own->broken ? Renewal::broken : Renewal::confirmed;
}

void tidy(const Step& step) {
  remove_dead_holders(step);
  remove_dead_answered(step);
  promise_to_the_next(step);
}

void record_command(State& state, const Token& token, const CommandProcess& command) {
  const auto own = holder_of(state, token);
  if (own == state.holders.end()) return;
  own->command = command.pid;
  own->command_after = command.not_before.time_since_epoch().count();
  own->command_before = command.not_after.time_since_epoch().count();
}

std::optional<Loss> loss_of(const State& state, const Holder& granted, Moment now,
                            const Liveness& liveness) {
  bool is_taken = state.slots == 1 && last_grant(state).fence > granted.fence;
  for (const auto& holder : state.holders) {
    if (is_over(holder, now, liveness)) continue;
    const bool is_own = holder.party.token == granted.party.token;
    if (!holder.ended && is_own && holder.fence == granted.fence) {
      return holder.broken ? std::optional(Loss::broken) : std::nullopt;
    }
    is_taken = is_taken || (holder.mode == Mode::exclusive && state.slots == 1);
  }
  if (forced_by(state, granted.fence)) return Loss::broken;
  return is_taken ? Loss::taken_over : Loss::gone;
}

std::optional<Taker> taker_from(const State& state, const Holder& granted) {
  for (const auto& holder : state.holders) {
    if (holder.fence == granted.fence && holder.taken_by) return holder.taken_by;
  }
  return forced_by(state, granted.fence);
}

Renewal renew_lease(const Step& step, const Claim& claim, const Holder& granted) {
  const auto loss = loss_of(step.state, granted, step.now, step.liveness);
  if (loss && *loss != Loss::broken) {
    if (claim.reclaim) return restore(step, claim, granted);
    return *loss == Loss::taken_over ? Renewal::taken_over : Renewal::gone;
  }
  const auto renewal = renew(step, claim.token, claim.ttl + claim.lock_delay);
  return loss ? Renewal::broken : renewal;  // even if it was removed by force
}

Release release_lease(const Step& step, const Claim& claim, const Holder* granted,
                      const std::optional<RunEnd>& end) {
  auto& state = step.state;
  const bool has_run = end && granted != nullptr;
  const auto loss =
      has_run ? loss_of(state, *granted, step.now, step.liveness) : std::nullopt;
  if (loss && !end->lost) return release_reporting(*loss);
  const auto own = holder_of(state, claim.token);
  const bool is_gone =
      loss && (own == state.holders.end() || is_over(*own, step.now, step.liveness));
  if (is_gone) {
    std::erase_if(state.holders, [&](const Holder& holder) {
      return !holder.ended && holder.party.token == claim.token;
    });
    release(step, claim.token, end);
    record_loss(state, *granted, *end, step.now);
    step.then.vanished.push_back(*state.last_run);
    return Release::not_ours;
  }
  const auto outcome = release(step, claim.token, end);
  if (end && outcome != Release::not_ours) step.then.vanished.push_back(*state.last_run);
  return outcome;
}

void limit_to_lengths(State& state, Moment now) {
  const auto limit = [&](std::optional<Clock::time_point>& end, milliseconds length) {
    if (end) end = std::min(*end, later(now.boot, length));
  };
  for (auto& holder : state.holders) {
    if (holder.lease == milliseconds(0)) continue;
    limit(holder.ends_at, holder.lease);
    limit(holder.lives_until, holder.lease);
  }
  for (auto& waiter : state.waiters) {
    limit(waiter.lives_until, longest_place);
    limit(waiter.parked_until, place_lasts);
  }
  for (auto& answered : state.answered) {
    limit(answered.waiter.lives_until, longest_place);
  }
}

}  // namespace dlock::rules
