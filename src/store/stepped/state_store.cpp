#include "store/stepped/state_store.hpp"

#include "rules/keeping.hpp"

namespace dlock::stepped {

bool differs_only_in_count(const rules::State& before, const rules::State& after) {
  if (before.refused == after.refused) return false;
  auto counted = before;
  counted.refused = after.refused;
  return counted == after;
}

void prepare(StateStore::Change& change, const StateStore::Snapshot& read) {
  change.state = read.state;
  rules::limit_to_lengths(change.state, read.now);
}

void complete(StateStore::Change& change, const rules::Consequences& then) {
  for (const auto& run : then.vanished) record_past_run(change.state, run);
  change.wake.insert(change.wake.end(), then.wake.begin(), then.wake.end());
  for (const auto& holder : then.broken) change.wake.push_back(holder.party.session);
}

}  // namespace dlock::stepped
