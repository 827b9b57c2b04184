#include "store/etcd/line.hpp"

#include <algorithm>

#include "lock/dedupe.hpp"

namespace dlock::etcd {
namespace {

bool counts_when_ended(const PastRun& run, const Dedupe& dedupe) {
  if (dedupe.joins) return run.is_shared;
  if (!run.info.counts || !run.info.reason.empty()) return false;
  const auto verdict = verdict_on(run.info.exit_code);
  const bool is_good =
      dedupe.retry_failed ? verdict == Verdict::succeeded : verdict != Verdict::no_run;
  // As it was when it ended: who waits then leaves, and does not come back later.
  return is_good && is_recent(run.info.started, dedupe.window,
                              run.info.ended.value_or(run.info.started));
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

Occupancy occupancy_of(const Line& line) {
  Occupancy occupancy;
  for (const auto& entry : line.entries) {
    if (is_holder(line, entry)) occupancy.add(entry);
  }
  return occupancy;
}

bool is_told_of_loss(const Entry& holder) {
  return !holder.foreign && holder.attached && holder.standing != Standing::ended;
}

const Entry* entry_of(const Line& line, std::string_view id) {
  const auto found = std::find_if(line.entries.begin(), line.entries.end(),
                                  [&](const Entry& entry) { return entry.id == id; });
  return found == line.entries.end() ? nullptr : &*found;
}

bool is_holder(const Line& line, const Entry& entry) {
  if (entry.holds()) return true;
  return entry.foreign && entry.id == line.entries.front().id;
}

std::optional<RunInfo> dismissed_by(const Line& line, const Entry& waiter) {
  if (!waiter.dedupe || waiter.holds()) return std::nullopt;
  const auto& dedupe = *waiter.dedupe;
  for (const auto& run : line.runs.past) {
    if (run.revision > waiter.created && counts_when_ended(run, dedupe)) return run.info;
  }
  if (dedupe.joins || dedupe.retry_failed) return std::nullopt;
  for (const auto& entry : line.entries) {
    if (entry.standing == Standing::holds && entry.counts()) return run_of_holder(entry);
  }
  return std::nullopt;
}

bool has_its_turn(const Line& line, const Entry& waiter) {
  auto occupancy = occupancy_of(line);
  for (const auto* entry : waiting(line)) {
    const bool fits = occupancy.admits(*entry);
    if (entry->id == waiter.id) return fits;
    if (!fits) return false;
    occupancy.add(*entry);
  }
  return false;
}

std::vector<const Entry*> waiting(const Line& line) {
  std::vector<const Entry*> found;
  for (const auto& entry : line.entries) {
    if (!is_holder(line, entry) && !dismissed_by(line, entry)) found.push_back(&entry);
  }
  return found;
}

std::optional<unsigned> slots_in_use(const Line& line, std::string_view id) {
  std::optional<unsigned> slots;
  bool is_behind = false;
  for (const auto& entry : line.entries) {
    is_behind = is_behind || entry.id == id;
    if (entry.foreign || entry.id == id) continue;
    if (!entry.holds() && (is_behind || dismissed_by(line, entry))) continue;
    // Of those who wait only the first says it, if nobody holds.
    if (!slots || entry.holds()) slots = entry.slots;
  }
  return slots;
}

unsigned free_slot(const Line& line) {
  unsigned slot = 0;
  const auto has_slot = [&](const Entry& entry) {
    return entry.holds() && entry.slot == slot;
  };
  while (std::any_of(line.entries.begin(), line.entries.end(), has_slot)) ++slot;
  return slot;
}

bool can_be_set_up_again(const Line& line, const Entry& lost) {
  const auto later_than_lost = [&](Fence fence) { return fence > lost.fence(); };
  for (const auto& run : line.runs.past) {
    if (later_than_lost(run.info.fence)) return false;
  }
  for (const auto& run : line.runs.open) {
    if (later_than_lost(run.info.fence)) return false;
  }
  // Whoever waits is in the way, for it goes by who stands in front of it; and holders
  // are, unless they had their slots, or read, beside it.
  Occupancy occupancy;
  for (const auto& entry : line.entries) {
    if (!is_holder(line, entry)) return false;
    if (!entry.holds() || later_than_lost(entry.fence())) return false;
    if (entry.slot == lost.slot && lost.mode == Mode::exclusive) return false;
    occupancy.add(entry);
  }
  return occupancy.admits(lost);
}

bool is_taken_over(const Line& line, std::string_view id) {
  return std::any_of(line.entries.begin(), line.entries.end(), [&](const Entry& entry) {
    return entry.id != id && is_holder(line, entry) && entry.mode == Mode::exclusive &&
           entry.slots == 1;
  });
}

Watched watched_by(const Line& line, const Entry& waiter) {
  // Whoever goes by what becomes of others.
  if (waiter.dedupe || waiter.replaces || waiter.supersedes) return {"", true};
  const auto waiters = waiting(line);
  const auto own = std::find_if(waiters.begin(), waiters.end(), [&](const Entry* entry) {
    return entry->id == waiter.id;
  });
  if (own != waiters.begin() && own != waiters.end()) {
    // Behind slots its turn may also come when that one takes another slot.
    const auto& before = **(own - 1);
    return {before.id, waiter.slots > 1 || waiter.mode == Mode::shared};
  }
  std::vector<const Entry*> holders;
  for (const auto& entry : line.entries) {
    if (is_holder(line, entry)) holders.push_back(&entry);
  }
  if (holders.size() == 1) return {holders.front()->id, false};
  return {"", false};
}

}  // namespace dlock::etcd
