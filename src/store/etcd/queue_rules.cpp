#include "store/etcd/queue_rules.hpp"

#include <algorithm>

#include "lock/dedupe.hpp"

namespace dlock::etcd {
namespace {

bool counts_when_ended(const PastRun& run, const Dedupe& dedupe) {
  if (dedupe.joins) return run.is_shared;
  if (!run.info.counts || !run.info.reason.empty() || !run.info.ended) return false;
  const auto verdict = verdict_on(run.info.exit_code);
  const bool is_good =
      dedupe.retry_failed ? verdict == Verdict::succeeded : verdict != Verdict::no_run;
  // The time of its end counts: a waiter at that moment leaves and does not come back.
  return is_good && is_recent(run.info.started, dedupe.window, *run.info.ended);
}

}  // namespace

void Occupancy::add(const Entry& entry) {
  ++(entry.mode == Mode::shared ? shared : exclusive);
  if (entry.mode == Mode::exclusive) slots = entry.slots;
}

bool Occupancy::admits(const Entry& entry) const {
  if (exclusive + shared == 0) return true;
  if (entry.mode == Mode::shared) return exclusive == 0;
  return shared == 0 && entry.slots == slots && exclusive < slots;
}

Occupancy occupancy_of(const LockSnapshot& snapshot) {
  Occupancy occupancy;
  for (const auto& entry : snapshot.entries) {
    if (is_holder(snapshot, entry)) occupancy.add(entry);
  }
  return occupancy;
}

bool is_told_of_loss(const Entry& holder) {
  return !holder.foreign && holder.attached && holder.standing != Standing::ended;
}

const Entry* entry_of(const LockSnapshot& snapshot, std::string_view id) {
  const auto found = std::find_if(snapshot.entries.begin(), snapshot.entries.end(),
                                  [&](const Entry& entry) { return entry.id == id; });
  return found == snapshot.entries.end() ? nullptr : &*found;
}

bool is_holder(const LockSnapshot& snapshot, const Entry& entry) {
  if (entry.holds()) return true;
  return entry.foreign && entry.id == snapshot.entries.front().id;
}

std::optional<RunInfo> deduplicated_by(const LockSnapshot& snapshot,
                                       const Entry& waiter) {
  if (!waiter.dedupe || waiter.holds()) return std::nullopt;
  const auto& dedupe = *waiter.dedupe;
  for (const auto& run : snapshot.runs.past) {
    if (run.revision > waiter.created && counts_when_ended(run, dedupe)) return run.info;
  }
  if (dedupe.joins || dedupe.retry_failed) return std::nullopt;
  for (const auto& entry : snapshot.entries) {
    if (entry.standing == Standing::holds && entry.counts()) return run_of_holder(entry);
  }
  return std::nullopt;
}

bool has_its_turn(const LockSnapshot& snapshot, const Entry& waiter) {
  auto occupancy = occupancy_of(snapshot);
  for (const auto* entry : waiting(snapshot)) {
    const bool fits = occupancy.admits(*entry);
    if (entry->id == waiter.id) return fits;
    if (!fits) return false;
    occupancy.add(*entry);
  }
  return false;
}

std::vector<const Entry*> waiting(const LockSnapshot& snapshot) {
  std::vector<const Entry*> found;
  for (const auto& entry : snapshot.entries) {
    if (!is_holder(snapshot, entry) && !deduplicated_by(snapshot, entry))
      found.push_back(&entry);
  }
  return found;
}

std::optional<unsigned> slots_in_use(const LockSnapshot& snapshot, std::string_view id) {
  std::optional<unsigned> slots;
  bool is_behind = false;
  for (const auto& entry : snapshot.entries) {
    is_behind = is_behind || entry.id == id;
    if (entry.foreign || entry.id == id) continue;
    if (!entry.holds() && (is_behind || deduplicated_by(snapshot, entry))) continue;
    // If there is no holder, the first waiter determines it.
    if (!slots || entry.holds()) slots = entry.slots;
  }
  return slots;
}

unsigned free_slot(const LockSnapshot& snapshot) {
  unsigned slot = 0;
  const auto has_slot = [&](const Entry& entry) {
    return entry.holds() && entry.slot == slot;
  };
  while (std::any_of(snapshot.entries.begin(), snapshot.entries.end(), has_slot)) ++slot;
  return slot;
}

bool can_be_set_up_again(const LockSnapshot& snapshot, const Entry& lost) {
  const auto later_than_lost = [&](Fence fence) { return fence > lost.fence(); };
  for (const auto& run : snapshot.runs.past) {
    if (later_than_lost(run.info.fence)) return false;
  }
  for (const auto& run : snapshot.runs.open) {
    if (later_than_lost(run.info.fence)) return false;
  }
  // A waiter is in the way, because it decides by the entries in front of it. Holders
  // are, too, unless they held other slots, or read, at the same time.
  Occupancy occupancy;
  for (const auto& entry : snapshot.entries) {
    if (!is_holder(snapshot, entry)) return false;
    if (!entry.holds() || later_than_lost(entry.fence())) return false;
    if (entry.slot == lost.slot && lost.mode == Mode::exclusive) return false;
    occupancy.add(entry);
  }
  return occupancy.admits(lost);
}

bool is_taken_over(const LockSnapshot& snapshot, std::string_view id) {
  return std::any_of(snapshot.entries.begin(), snapshot.entries.end(),
                     [&](const Entry& entry) {
                       return entry.id != id && is_holder(snapshot, entry) &&
                              entry.mode == Mode::exclusive && entry.slots == 1;
                     });
}

Watched watched_by(const LockSnapshot& snapshot, const Entry& waiter) {
  // A claim that depends on what happens to others.
  if (waiter.dedupe || waiter.replaces || waiter.supersedes) return {"", true};
  const auto waiters = waiting(snapshot);
  const auto own = std::find_if(waiters.begin(), waiters.end(), [&](const Entry* entry) {
    return entry->id == waiter.id;
  });
  if (own != waiters.begin() && own != waiters.end()) {
    // With slots, its turn may also come when the waiter in front takes another slot.
    const auto& before = **(own - 1);
    return {before.id, waiter.slots > 1 || waiter.mode == Mode::shared};
  }
  std::vector<const Entry*> holders;
  for (const auto& entry : snapshot.entries) {
    if (is_holder(snapshot, entry)) holders.push_back(&entry);
  }
  if (holders.size() == 1) return {holders.front()->id, false};
  return {"", false};
}

}  // namespace dlock::etcd
