#include "store/local/appended_fields.hpp"

#include <algorithm>

namespace dlock::local {

AppendedFields appended_fields_of(const State& state) {
  AppendedFields later;
  for (std::uint32_t i = 0; i < state.waiters.size(); ++i) {
    if (state.waiters[i].supersedes) later.superseding.push_back(i);
    if (state.waiters[i].replaces) later.replacing.push_back(i);
  }
  for (std::uint32_t i = 0; i < state.answered.size(); ++i) {
    const auto& newer = state.answered[i].newer;
    if (newer) later.superseded.push_back({i, *newer});
  }
  for (std::uint32_t i = 0; i < state.holders.size(); ++i) {
    const auto& taken_by = state.holders[i].taken_by;
    if (taken_by) later.taken_from.push_back({i, *taken_by});
  }
  return later;
}

Callers callers_of(const State& state) {
  Callers callers;
  for (std::uint32_t i = 0; i < state.waiters.size(); ++i) {
    const auto pid = state.waiters[i].on_behalf_of;
    if (pid != 0) callers.of_waiters.push_back({i, pid});
  }
  return callers;
}

bool take_in(const Callers& callers, State& state) {
  for (const auto& caller : callers.of_waiters) {
    if (caller.index >= state.waiters.size() || caller.pid < 0) return false;
    state.waiters[caller.index].on_behalf_of = caller.pid;
  }
  return true;
}

bool take_in(const AppendedFields& later, State& state) {
  const auto set = [&](const std::vector<std::uint32_t>& waiters, bool Waiter::*flag) {
    return std::all_of(waiters.begin(), waiters.end(), [&](std::uint32_t index) {
      const bool is_there = index < state.waiters.size();
      if (is_there) state.waiters[index].*flag = true;
      return is_there;
    });
  };
  for (const auto& leaver : later.superseded) {
    if (leaver.index >= state.answered.size() || leaver.newer.pid < 0) return false;
    state.answered[leaver.index].newer = leaver.newer;
  }
  for (const auto& loser : later.taken_from) {
    if (loser.index >= state.holders.size()) return false;
    state.holders[loser.index].taken_by = loser.taken_by;
  }
  return set(later.superseding, &Waiter::supersedes) &&
         set(later.replacing, &Waiter::replaces);
}

std::vector<LeaseTtl> lease_ttls_of(const State& state) {
  std::vector<LeaseTtl> ttls;
  for (std::uint32_t i = 0; i < state.holders.size(); ++i) {
    const auto ttl = state.holders[i].ttl;
    if (ttl != rules::usual_ttl) ttls.push_back({i, ttl});
  }
  return ttls;
}

bool take_in(const std::vector<LeaseTtl>& ttls, State& state) {
  return std::all_of(ttls.begin(), ttls.end(), [&](const LeaseTtl& one) {
    const bool is_there = one.index < state.holders.size();
    if (is_there) state.holders[one.index].ttl = one.ttl;
    return is_there;
  });
}

}  // namespace dlock::local
