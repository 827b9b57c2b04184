#include "store/etcd/snapshot_view.hpp"

#include <algorithm>

#include "lock/history.hpp"

namespace dlock::etcd {

Busy busy(const LockSnapshot& snapshot, const Entry* own, WallTime now) {
  Busy answer;
  for (const auto& entry : snapshot.entries) {
    if (is_holder(snapshot, entry)) answer.holders.push_back(holder_info(entry, now));
  }
  const auto waiters = waiting(snapshot);
  answer.queued = waiters.size();
  for (std::size_t i = 0; own != nullptr && i < waiters.size(); ++i) {
    if (waiters[i]->id == own->id) answer.place = i + 1;
  }
  return answer;
}

LockInfo info_of(const LockSnapshot& snapshot, const LockName& lock, WallTime now) {
  LockInfo info;
  info.lock = lock;
  info.now = now;
  info.refused = snapshot.runs.refused;
  info.superseded = snapshot.runs.superseded;
  Occupancy occupancy;
  for (const auto& entry : snapshot.entries) {
    if (!is_holder(snapshot, entry)) continue;
    occupancy.add(entry);
    info.mode = entry.mode;
    info.holders.push_back(holder_info(entry, now));
  }
  for (const auto* waiter : waiting(snapshot)) {
    info.waiters.push_back(waiter_info(*waiter, now));
  }
  const auto kept = kept_runs(snapshot.runs, snapshot.entries, now);
  const auto last = std::find_if_not(kept.begin(), kept.end(), is_by_hand);
  if (last != kept.end()) info.last_run = *last;
  std::vector<RunInfo> past;
  past.reserve(snapshot.runs.past.size());
  for (const auto& run : snapshot.runs.past) past.push_back(run.info);
  info.last_success = last_success_of(past, std::nullopt);
  info.known = !snapshot.entries.empty() || !snapshot.runs.past.empty() ||
               !snapshot.runs.open.empty() || info.refused > 0;
  info.slots = slots_in_use(snapshot, {}).value_or(1);
  const auto taken = occupancy.shared > 0 ? info.slots : occupancy.exclusive;
  info.free = info.slots - std::min(taken, info.slots);
  return info;
}

}  // namespace dlock::etcd
