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

bool is_older(const LockInfo& one, const LockInfo& other) {
  return std::tuple(group_of(one) != 0, -held_for(one), -last_used(one)) <
         std::tuple(group_of(other) != 0, -held_for(other), -last_used(other));
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
      return !holds && (options.held ||
                        std::none_of(lock.waiters.begin(), lock.waiters.end(), is_meant));
    });
  }
  if (options.order == ListOrder::age) {
    std::stable_sort(locks.begin(), locks.end(), is_older);
  }
  if (options.form == ListOptions::Form::live) {
    std::stable_sort(locks.begin(), locks.end(),
                     [](const LockInfo& one, const LockInfo& other) {
                       return group_of(one) < group_of(other);
                     });
  }
  return locks;
}

}  // namespace dlock
