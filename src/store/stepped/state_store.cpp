#include "store/stepped/state_store.hpp"

#include <algorithm>

#include "lock/history.hpp"
#include "rules/keeping.hpp"
#include "rules/watches.hpp"

namespace dlock::stepped {

bool differs_only_in_count(const rules::State& before, const rules::State& after) {
  if (before.refused == after.refused) return false;
  auto counted = before;
  counted.refused = after.refused;
  return counted == after;
}

std::vector<Event> events_of(const LockName& lock, const StateStore::Snapshot& read,
                             const StateStore::Change& change) {
  const auto now = read.now;
  auto events = rules::events_between(read.state, change.state, lock, change.cause, now);
  if (change.lost) {
    auto event = rules::lost_event(*change.lost, lock, change.state, now);
    event.run = change.state.last_run;
    events.push_back(std::move(event));
  }
  return events;
}

std::optional<Clock::time_point> due_of(const rules::State& state) {
  std::optional<Clock::time_point> due;
  const auto note = [&](const std::optional<Clock::time_point>& end) {
    if (end && (!due || *end < *due)) due = end;
  };
  for (const auto& holder : state.holders) note(rules::end_of(holder));
  for (const auto& waiter : state.waiters) {
    note(waiter.lives_until);
    note(waiter.promised_until);
  }
  return due;
}

Clock::time_point keep_until(const rules::State& state, rules::Moment now) {
  auto until = later(now.boot, run_retention);
  for (const auto& holder : state.holders) {
    if (const auto end = rules::end_of(holder)) {
      until = std::max(until, later(*end, run_retention));
    }
  }
  return until;
}

void prepare(StateStore::Change& change, const StateStore::Snapshot& read) {
  change.state = read.state;
  rules::limit_to_lengths(change.state, read.now);
}

void complete(StateStore::Change& change, const StateStore::Snapshot& read,
              const rules::Consequences& then) {
  for (const auto& run : then.vanished) record_past_run(change.state, run);
  change.wake.insert(change.wake.end(), then.wake.begin(), then.wake.end());
  for (const auto& holder : then.broken) change.wake.push_back(holder.party.session);
  change.in_front = rules::come_to_front(read.state, change.state, read.now);
  std::erase_if(change.in_front, [&](rules::Session session) {
    const auto& wake = change.wake;
    return session == change.sleeper || std::ranges::find(wake, session) != wake.end();
  });
}

}  // namespace dlock::stepped
