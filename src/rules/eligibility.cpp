#include "rules/eligibility.hpp"

#include <algorithm>

#include "rules/queue.hpp"

namespace dlock::rules {
namespace {

// A shared claim inside a shared outer run enters even if an exclusive claim waits: that
// one waits for the outer run, which waits for this claim. A foreign party does not look
// at entries behind its own, and would not see it.
bool joins_outer_reader(const State& state, const Claim& claim) {
  const auto is_foreign = [](const auto& one) { return one.party.foreign; };
  return claim.mode == Mode::shared &&
         std::none_of(state.holders.begin(), state.holders.end(), is_foreign) &&
         std::none_of(state.waiters.begin(), state.waiters.end(), is_foreign) &&
         std::any_of(state.holders.begin(), state.holders.end(),
                     [&](const Holder& holder) {
                       return holder.mode == Mode::shared && is_outer_run(claim, holder);
                     });
}

}  // namespace

bool is_outer_run(const Claim& claim, const Holder& holder) {
  return !holder.ended && std::find(claim.outer_fences.begin(), claim.outer_fences.end(),
                                    holder.fence) != claim.outer_fences.end();
}

std::optional<Fence> blocking_outer_run(const State& state, const Claim& claim) {
  std::optional<Fence> above;
  bool others = std::any_of(state.waiters.begin(), state.waiters.end(),
                            [](const Waiter& w) { return w.promised_until.has_value(); });
  for (const auto& holder : state.holders) {
    if (is_outer_run(claim, holder)) {
      above = holder.fence;
    } else {
      others = true;
    }
  }
  // Another holder's slot can become free.
  const bool can_wait = claim.mode == Mode::exclusive && claim.slots > 1 && others;
  return can_wait ? std::nullopt : above;
}

bool can_enter(const State& state, const Claim& claim, Moment now) {
  // Waiters with a promise already count like holders.
  const bool nobody_waits = std::all_of(
      state.waiters.begin(), state.waiters.end(),
      [](const Waiter& waiter) { return waiter.passed_over || waiter.promised_until; });
  return (nobody_waits || joins_outer_reader(state, claim)) &&
         occupancy_of(state, now).admits(claim.mode, state.slots);
}

bool is_full(const State& state, const Claim& claim, const Liveness& liveness) {
  if (!claim.max_queue) return false;
  const auto counted = [&](const Waiter& waiter) {
    return !(claim.supersedes && waiter.supersedes) && liveness.is_alive(waiter);
  };
  return std::count_if(state.waiters.begin(), state.waiters.end(), counted) >=
         static_cast<std::ptrdiff_t>(*claim.max_queue);
}

}  // namespace dlock::rules
