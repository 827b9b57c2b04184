#include "rules/queue.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace dlock::rules {
namespace {

// Withdraws promises from dead waiters and from those that let them lapse. Returns
// whether any lapsed.
bool end_promises(const Step& step) {
  auto& state = step.state;
  bool lapsed = false;
  for (auto waiter = state.waiters.begin(); waiter != state.waiters.end();) {
    const bool had_its_turn = waiter->promised_until || waiter->passed_over;
    if (had_its_turn && !step.liveness.is_alive(*waiter)) {
      step.then.dead.push_back(waiter->party.session);
      waiter = state.waiters.erase(waiter);
      continue;
    }
    if (waiter->promised_until && !is_promised(*waiter, step.now)) {
      waiter->promised_until.reset();
      waiter->passed_over = true;
      lapsed = true;
    }
    ++waiter;
  }
  return lapsed;
}

// A shared claim inside a shared outer run enters even if an exclusive claim waits: that
// one waits for the outer run, which waits for this claim. A foreign party does not look
// at entries behind its own, and would not see it.
bool joins_outer_reader(const State& state, const Claim& claim) {
  const auto is_foreign = [](const auto& one) { return one.party.foreign; };
  return claim.mode == Mode::shared && std::ranges::none_of(state.holders, is_foreign) &&
         std::ranges::none_of(state.waiters, is_foreign) &&
         std::ranges::any_of(state.holders, [&](const Holder& holder) {
           return holder.mode == Mode::shared && is_outer_run(claim, holder);
         });
}

}  // namespace

Occupancy occupancy_of(const State& state, Moment now) {
  Occupancy occupancy;
  for (const auto& holder : state.holders) occupancy.add(holder.party, holder.mode);
  for (const auto& waiter : state.waiters) {
    if (is_promised(waiter, now)) occupancy.add(waiter.party, waiter.mode);
  }
  return occupancy;
}

bool fits(const State& state, const Occupancy& occupancy, const Waiter& waiter) {
  if (waiter.party.foreign || waiter.differs_in_slots) {
    return occupancy.exclusive + occupancy.shared == 0;
  }
  return occupancy.admits(waiter.mode, state.slots);
}

bool is_promised(const Waiter& waiter, Moment now) {
  return waiter.promised_until && *waiter.promised_until > now.boot &&
         *waiter.promised_until <= now.boot + promise_holds;
}

bool is_parked(const Waiter& waiter, Moment now) {
  return waiter.parked_until && *waiter.parked_until > now.boot;
}

bool is_outer_run(const Claim& claim, const Holder& holder) {
  return !holder.ended &&
         std::ranges::find(claim.outer_fences, holder.fence) != claim.outer_fences.end();
}

std::optional<Fence> blocking_outer_run(const State& state, const Claim& claim) {
  std::optional<Fence> above;
  bool others = std::ranges::any_of(
      state.waiters, [](const Waiter& w) { return w.promised_until.has_value(); });
  for (const auto& holder : state.holders) {
    if (is_outer_run(claim, holder)) {
      above = holder.fence;
    } else {
      others = true;
    }
  }
  // Another holder's slot can become free, but not on the host of the outer run.
  const bool can_wait =
      claim.mode == Mode::exclusive && claim.slots > 1 && others && !claim.spreads;
  return can_wait ? std::nullopt : above;
}

bool has_slot(const State& state, const std::string& host) {
  return std::ranges::any_of(
      state.holders, [&](const Holder& holder) { return holder.party.host == host; });
}

bool is_crowded(const State& state, const std::string& host, Moment now) {
  return has_slot(state, host) ||
         std::ranges::any_of(state.waiters, [&](const Waiter& one) {
           return is_promised(one, now) && one.party.host == host;
         });
}

bool can_enter(const State& state, const Claim& claim, const std::string& host,
               Moment now) {
  if (claim.spreads && is_crowded(state, host, now)) return false;
  // Waiters with a promise already count like holders.
  const bool overtakes_nobody =
      std::ranges::all_of(state.waiters, [&](const Waiter& waiter) {
        return waiter.passed_over || waiter.promised_until ||
               waiter.priority > claim.priority ||
               (waiter.spreads && is_crowded(state, waiter.party.host, now));
      });
  return (overtakes_nobody || joins_outer_reader(state, claim)) &&
         occupancy_of(state, now).admits(claim.mode, state.slots);
}

std::vector<Waiter>::iterator enqueue(State& state, Waiter waiter) {
  const auto behind = std::ranges::find_if(state.waiters, [&](const Waiter& other) {
    return other.priority > waiter.priority;
  });
  return state.waiters.insert(behind, std::move(waiter));
}

bool is_full(const State& state, const Claim& claim, const Liveness& liveness) {
  if (!claim.max_queue) return false;
  const auto counted = [&](const Waiter& waiter) {
    return !(claim.supersedes && waiter.supersedes) && liveness.is_alive(waiter);
  };
  return std::ranges::count_if(state.waiters, counted) >=
         static_cast<std::ptrdiff_t>(*claim.max_queue);
}

void remove_dead_predecessors(const Step& step, std::vector<Waiter>::iterator own) {
  auto first_dead = own;
  while (first_dead != step.state.waiters.begin() &&
         !step.liveness.is_alive(*(first_dead - 1))) {
    --first_dead;
    step.then.dead.push_back(first_dead->party.session);
  }
  step.state.waiters.erase(first_dead, own);
}

void promise_to_the_next(const Step& step) {
  auto& state = step.state;
  const bool lapsed = end_promises(step);
  const auto holds = lapsed ? promise_holds_after_lapse : promise_holds;
  auto occupancy = occupancy_of(state, step.now);
  for (auto waiter = state.waiters.begin(); waiter != state.waiters.end();) {
    if (waiter->promised_until || waiter->passed_over) {
      ++waiter;
    } else if (!step.liveness.is_alive(*waiter)) {
      step.then.dead.push_back(waiter->party.session);
      waiter = state.waiters.erase(waiter);
    } else if (waiter->spreads && is_crowded(state, waiter->party.host, step.now)) {
      ++waiter;
    } else if (!fits(state, occupancy, *waiter)) {
      return;
    } else if (is_parked(*waiter, step.now)) {
      waiter->passed_over = true;
      ++waiter;
    } else {
      const bool is_last = std::next(waiter) == state.waiters.end();
      if (!is_last && step.liveness.is_stopped(*waiter)) {
        waiter->passed_over = true;
      } else {
        waiter->promised_until = step.now.boot + holds;
        occupancy.add(waiter->party, waiter->mode);
      }
      step.then.wake.push_back(waiter->party.session);
      ++waiter;
    }
  }
}

void deduplicate_waiters(const Step& step) {
  auto& state = step.state;
  std::erase_if(state.waiters, [&](const Waiter& waiter) {
    if (!waiter.dedupe) return false;
    const auto run = counting_run(state, *waiter.dedupe, Queue::join, step.now);
    if (!run) return false;
    state.answered.push_back({waiter, *run});
    step.then.wake.push_back(waiter.party.session);
    return true;
  });
}

void deduplicate_joined(const Step& step, const RunInfo& run) {
  std::erase_if(step.state.waiters, [&](const Waiter& waiter) {
    if (!waiter.dedupe || !waiter.dedupe->joins) return false;
    step.state.answered.push_back({waiter, run});
    step.then.wake.push_back(waiter.party.session);
    return true;
  });
}

void wake_first_waiter(const Step& step) {
  for (const auto& waiter : step.state.waiters) {
    if (waiter.promised_until || waiter.passed_over) continue;
    step.then.wake.push_back(waiter.party.session);
    return;
  }
}

}  // namespace dlock::rules
