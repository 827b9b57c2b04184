#include "rules/keeping.hpp"

#include <algorithm>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"
#include "rules/runs.hpp"

namespace dlock::rules {
namespace {

Fence last_granted(const State& state) {
  return state.restored ? state.restored->granted : state.last_fence;
}

bool has_fence(const std::vector<Fence>& fences, Fence fence) {
  return std::find(fences.begin(), fences.end(), fence) != fences.end();
}

// What is known of the leases that may be restored. Each grant first removes those that
// are over, so all that are still there ended after the last grant.
Restored restorable(const State& state, Moment now, const Liveness& liveness) {
  auto known = state.restored.value_or(Restored{state.last_fence, {}});
  for (const auto& holder : state.holders) {
    const bool has_vanished = !holder.ended && is_over(holder, now, liveness);
    if (has_vanished && !has_fence(known.vanished, holder.fence)) {
      known.vanished.push_back(holder.fence);
    }
  }
  return known;
}

bool has_room_for(const State& state, const Claim& claim, std::uint32_t slot,
                  Moment now) {
  const bool is_slot_taken =
      claim.mode == Mode::exclusive &&
      std::any_of(state.holders.begin(), state.holders.end(),
                  [&](const Holder& holder) { return holder.slot == slot; });
  const bool is_unused = state.holders.empty() && state.waiters.empty();
  return !is_slot_taken && (is_unused || state.slots == claim.slots) &&
         occupancy_of(state, now).admits(claim.mode, claim.slots);
}

// The run has not vanished after all.
void take_back_run(State& state, Fence fence) {
  std::erase_if(state.runs,
                [&](const RunInfo& run) { return run.fence == fence && !run.ended; });
  const bool is_last =
      state.last_run && state.last_run->fence == fence && !state.last_run->ended;
  if (!is_last) return;
  const auto before = std::find_if(state.runs.begin(), state.runs.end(),
                                   [](const RunInfo& run) { return !is_by_hand(run); });
  state.last_run =
      before == state.runs.end() ? std::nullopt : std::optional<RunInfo>(*before);
}

Renewal restore(State& state, const Claim& claim, const Holder& granted, Moment now,
                const Liveness& liveness, Consequences& consequences) {
  const auto known = restorable(state, now, liveness);
  std::erase_if(state.holders, [&](const Holder& holder) {
    return !holder.ended && holder.party.token == claim.token;
  });
  remove_dead_holders(state, now, liveness, consequences);
  const bool was_granted_since =
      known.granted > granted.fence && !has_fence(known.vanished, granted.fence);
  if (was_granted_since || !has_room_for(state, claim, granted.slot, now)) {
    return Renewal::taken_over;
  }
  take_back_run(state, granted.fence);
  state.slots = claim.slots;
  state.last_fence = std::max(state.last_fence, granted.fence);
  state.used = now.wall;
  state.restored = known;
  auto& holder = state.holders.emplace_back(granted);
  holder.lease = claim.ttl + claim.lock_delay;
  holder.lives_until = later(now.boot, holder.lease);
  return Renewal::reclaimed;
}

}  // namespace

std::optional<Loss> loss_of(const State& state, const Holder& granted, Moment now,
                            const Liveness& liveness) {
  bool is_taken = state.slots == 1 && last_granted(state) > granted.fence;
  for (const auto& holder : state.holders) {
    if (is_over(holder, now, liveness)) continue;
    if (!holder.ended && holder.fence == granted.fence) {
      return holder.broken ? std::optional(Loss::broken) : std::nullopt;
    }
    is_taken = is_taken || (holder.mode == Mode::exclusive && state.slots == 1);
  }
  if (forced_by(state, granted.fence)) return Loss::broken;
  return is_taken ? Loss::taken_over : Loss::gone;
}

Renewal renew_lease(State& state, const Claim& claim, const Holder& granted, Moment now,
                    const Liveness& liveness, Consequences& consequences) {
  const auto loss = loss_of(state, granted, now, liveness);
  if (loss && *loss != Loss::broken) {
    if (claim.reclaim) {
      return restore(state, claim, granted, now, liveness, consequences);
    }
    return *loss == Loss::taken_over ? Renewal::taken_over : Renewal::gone;
  }
  const auto renewal = renew(state, claim.token, claim.ttl + claim.lock_delay, now,
                             liveness, consequences);
  return loss ? Renewal::broken : renewal;  // also if it was removed by force
}

Release release_lease(State& state, const Claim& claim, const Holder* granted,
                      const std::optional<RunEnd>& end, Moment now,
                      const Liveness& liveness, Consequences& consequences) {
  const bool has_run = end && granted != nullptr;
  const auto loss = has_run ? loss_of(state, *granted, now, liveness) : std::nullopt;
  if (loss && !end->lost) return release_reporting(*loss);
  const auto own = holder_of(state, claim.token);
  const bool is_gone = own == state.holders.end() || is_over(*own, now, liveness);
  if (has_run && is_gone) {
    std::erase_if(state.holders, [&](const Holder& holder) {
      return !holder.ended && holder.party.token == claim.token;
    });
    release(state, claim.token, end, now, liveness, consequences);
    record_loss(state, *granted, *end, now);
    consequences.vanished.push_back(*state.last_run);
    return Release::not_ours;
  }
  const auto outcome = release(state, claim.token, end, now, liveness, consequences);
  if (!end || outcome != Release::released) return outcome;
  consequences.vanished.push_back(*state.last_run);
  return end->leaves_lease ? Release::left : outcome;
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
  for (auto& waiter : state.waiters) limit(waiter.lives_until, longest_place);
  for (auto& answered : state.answered) {
    limit(answered.waiter.lives_until, longest_place);
  }
}

}  // namespace dlock::rules
