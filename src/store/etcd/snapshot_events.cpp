#include "store/etcd/snapshot_events.hpp"

#include <algorithm>
#include <utility>

namespace dlock::etcd {
namespace {

using EventKind = dlock::Event::Kind;

const Entry* same_in(const LockSnapshot& snapshot, const Entry& entry) {
  const auto* found = entry_of(snapshot, entry.id);
  return found != nullptr && found->created == entry.created ? found : nullptr;
}

std::vector<Entry> holders_of(const LockSnapshot& snapshot) {
  std::vector<Entry> holders;
  for (const auto& entry : snapshot.entries) {
    if (is_holder(snapshot, entry)) holders.push_back(entry);
  }
  return holders;
}

unsigned free_of(const std::vector<Entry>& holders, unsigned slots) {
  const bool shared = std::any_of(holders.begin(), holders.end(),
                                  [](const Entry& e) { return e.mode == Mode::shared; });
  const auto taken = shared ? slots : holders.size();
  return slots - static_cast<unsigned>(std::min<std::size_t>(taken, slots));
}

dlock::Event event_of(EventKind kind, const LockName& lock, const Entry& entry,
                      WallTime now) {
  dlock::Event event;
  event.time = now;
  event.kind = kind;
  event.lock = lock;
  event.host = entry.host;
  event.pid = entry.pid;
  event.user = entry.user;
  event.label = entry.label;
  event.command = entry.command;
  if (kind == EventKind::queued || kind == EventKind::left) return event;
  event.fence = entry.fence();
  if (kind == EventKind::broken) event.taken_by = entry.taken_by;
  return event;
}

// The event for a holder that is gone.
dlock::Event event_of_end(const Entry& holder, const LockName& lock,
                          const RunChanges& aside, WallTime now) {
  if (const auto taken = aside.taken.find(holder.id); taken != aside.taken.end()) {
    auto event = event_of(EventKind::broken, lock, holder, now);
    event.taken_by = taken->second;
    return event;
  }
  for (const auto& run : aside.ended) {
    if (run.info.fence != holder.fence()) continue;
    const bool is_lost =
        run.info.outcome == "lost" && holder.standing != Standing::broken;
    auto event =
        event_of(is_lost ? EventKind::lost : EventKind::released, lock, holder, now);
    if (!is_by_hand(run.info)) event.run = run.info;
    return event;
  }
  const bool was_given_back = holder.foreign || holder.standing == Standing::ended ||
                              aside.closed.count(holder.id) > 0;
  return event_of(was_given_back ? EventKind::released : EventKind::expired, lock, holder,
                  now);
}

}  // namespace

std::vector<dlock::Event> events_between(const LockSnapshot& before,
                                         const LockSnapshot& after,
                                         const RunChanges& aside, const LockName& lock,
                                         WallTime now) {
  std::vector<dlock::Event> events;
  auto holders = holders_of(before);
  auto slots = slots_in_use(before, {}).value_or(1);
  const auto add = [&](dlock::Event event) {
    event.free = free_of(holders, slots);
    events.push_back(std::move(event));
  };
  for (const auto& entry : before.entries) {
    if (same_in(after, entry) != nullptr) continue;
    if (!is_holder(before, entry)) {
      add(event_of(EventKind::left, lock, entry, now));
      continue;
    }
    std::erase_if(holders, [&](const Entry& one) { return one.id == entry.id; });
    add(event_of_end(entry, lock, aside, now));
  }
  slots = slots_in_use(after, {}).value_or(slots);
  for (const auto& entry : after.entries) {
    const auto* former = same_in(before, entry);
    if (!is_holder(after, entry)) {
      if (former == nullptr) add(event_of(EventKind::queued, lock, entry, now));
      continue;
    }
    if (former == nullptr || !is_holder(before, *former)) {
      holders.push_back(entry);
      add(event_of(EventKind::granted, lock, entry, now));
    }
    const bool was_broken = former != nullptr && former->standing == Standing::broken;
    if (entry.standing == Standing::broken && !was_broken) {
      add(event_of(EventKind::broken, lock, entry, now));
    }
  }
  return events;
}

}  // namespace dlock::etcd
