#include "rules/takeover.hpp"

#include <algorithm>

#include "rules/queue.hpp"
#include "rules/runs.hpp"

namespace dlock::rules {
namespace {

template <typename IsMeant>
std::vector<Holder> take_from(State& state, IsMeant is_meant, const Taker& taker,
                              Moment now, Consequences& consequences) {
  std::vector<Holder> found;
  for (auto& holder : state.holders) {
    if (!is_meant(holder)) continue;
    found.push_back(holder);
    if (!holder.broken || taker.forced) holder.taken_by = taker;
    holder.broken = true;
    if (is_by_hand(holder)) {
      consequences.vanished.push_back(lease_by_hand(holder, now));
    } else if (taker.forced && !holder.ended) {
      record_run(state, forced_run(holder, taker, now));
      consequences.vanished.push_back(*state.last_run);
    }
  }
  // A lease that ends by the clock has no process to notify.
  std::erase_if(state.holders, [](const Holder& h) {
    return h.broken && (h.ends_at || (h.taken_by && h.taken_by->forced));
  });
  return found;
}

}  // namespace

std::vector<Holder> break_leases(State& state, const std::vector<Fence>& fences,
                                 const Taker& taker, Moment now, const Liveness& liveness,
                                 Consequences& consequences) {
  remove_dead_holders(state, now, liveness, consequences);
  remove_dead_answered(state, liveness, consequences);
  auto found = take_from(
      state,
      [&](const Holder& holder) {
        return std::find(fences.begin(), fences.end(), holder.fence) != fences.end();
      },
      taker, now, consequences);
  promise_to_the_next(state, now, liveness, consequences);
  return found;
}

std::vector<Fence> fences_of(const std::vector<Holder>& holders) {
  std::vector<Fence> fences;
  fences.reserve(holders.size());
  for (const auto& holder : holders) fences.push_back(holder.fence);
  return fences;
}

bool replace_holders(State& state, const Claim& claim, const Party& taker, Moment now,
                     Consequences& consequences) {
  auto taken = take_from(
      state, [&](const Holder& holder) { return !is_outer_run(claim, holder); },
      replacing(taker), now, consequences);
  for (auto& holder : taken) consequences.broken.push_back(std::move(holder));
  return !taken.empty();
}

Taker replacing(const Party& taker) { return {taker.user, taker.host, true}; }

const Waiter* replacer(const State& state, Moment now, const Liveness& liveness) {
  const auto found =
      std::find_if(state.waiters.begin(), state.waiters.end(), [&](const Waiter& waiter) {
        return waiter.replaces && !waiter.passed_over && !is_promised(waiter, now) &&
               liveness.is_alive(waiter);
      });
  return found == state.waiters.end() ? nullptr : &*found;
}

void wake_replacers(const State& state, Consequences& consequences) {
  for (const auto& waiter : state.waiters) {
    if (waiter.replaces) consequences.wake.push_back(waiter.party.session);
  }
}

bool supersede(State& state, const Party& newer, const Liveness& liveness,
               Consequences& consequences) {
  const auto superseded = std::erase_if(state.waiters, [&](const Waiter& waiter) {
    if (!waiter.supersedes) return false;
    if (liveness.is_alive(waiter)) ++state.superseded;
    state.answered.push_back({waiter, {}, Superseded{newer.host, newer.pid}});
    consequences.wake.push_back(waiter.party.session);
    return true;
  });
  // The new first waiter has to watch what the removed one watched.
  if (superseded > 0) wake_first_waiter(state, consequences);
  return superseded > 0;
}

}  // namespace dlock::rules
