#include "cli/show/lock_choice.hpp"

#include <algorithm>
#include <tuple>

#include "util/text.hpp"

namespace dlock {
namespace {

int group_of(const LockInfo& lock) {
  if (!lock.holders.empty()) return 0;
  return lock.waiters.empty() ? 2 : 1;
}

// How long the lock has been held; zero if it is free or the time is unknown.
milliseconds held_for(const LockInfo& lock) {
  milliseconds longest{0};
  for (const auto& holder : lock.holders) longest = std::max(longest, holder.held);
  return longest;
}

WallTime last_used(const LockInfo& lock) {
  if (!lock.last_run) return WallTime(0);
  return lock.last_run->ended.value_or(lock.last_run->started);
}

std::tuple<bool, milliseconds, WallTime> age_of(const LockInfo& lock) {
  return {group_of(lock) != 0, -held_for(lock), -last_used(lock)};
}

}  // namespace

std::vector<LockInfo> selected(std::vector<LockInfo> locks, const ListOptions& options) {
  if (options.held) {
    std::erase_if(locks, [](const LockInfo& lock) { return lock.holders.empty(); });
  }
  if (!options.means_all()) {
    const auto is_meant = [&](const auto& party) { return options.means(party, party); };
    std::erase_if(locks, [&](LockInfo& lock) {
      // The table names the first holder.
      const auto others =
          std::stable_partition(lock.holders.begin(), lock.holders.end(), is_meant);
      const bool holds = others != lock.holders.begin();
      return !holds && (options.held || std::ranges::none_of(lock.waiters, is_meant));
    });
  }
  if (options.order == ListOrder::age) std::ranges::stable_sort(locks, {}, age_of);
  if (options.form == ListOptions::Form::live) {
    std::ranges::stable_sort(locks, {}, group_of);
  }
  return locks;
}

}  // namespace dlock
