#include "store/etcd/etcd_queue.hpp"

#include <algorithm>
#include <utility>

#include "lock/lease.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/watches.hpp"

namespace dlock::etcd {

namespace {

// Entries vanish with their leases, so all that are there are alive.
class EntriesLive final : public rules::Liveness {
 public:
  bool is_alive(const rules::Holder&) const override { return true; }
  bool is_alive(const rules::Waiter&) const override { return true; }
  bool is_stopped(const rules::Waiter&) const override { return false; }
};
const EntriesLive entries_live;

bool counts_when_ended(const PastRun& run, const Dedupe& dedupe) {
  if (!run.info.counts || dedupe.joins) return run.info.counts && run.is_shared;
  PastRuns past;
  past.note(run.info);
  // The time of its end counts: a waiter at that moment leaves and does not come back.
  return run.info.ended && past.counting_for(dedupe, *run.info.ended) != nullptr;
}

// The run against which this waiter is deduplicated: it has ended since the waiter came,
// or is running. Nothing if there is none.
std::optional<RunInfo> deduplicated_by(const LockSnapshot& snapshot,
                                       const QueueEntry& waiter) {
  if (!waiter.dedupe) return std::nullopt;
  for (const auto& run : snapshot.runs.past) {
    if (run.revision > waiter.created && counts_when_ended(run, *waiter.dedupe))
      return run.info;
  }
  rules::State held;
  for (const auto& entry : snapshot.entries) {
    if (entry.holds()) held.holders.push_back(as_holder(entry));
  }
  return rules::counting_run(held, *waiter.dedupe, Queue::join, {});
}

// The slots of the holders and of the waiters before `id`; nothing if dlock wrote none of
// these entries.
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

const QueueEntry* entry_with(const LockSnapshot& snapshot, const Token& token) {
  const auto found = std::ranges::find_if(snapshot.entries, [&](const QueueEntry& entry) {
    return token_of(entry.id) == token;
  });
  return found == snapshot.entries.end() ? nullptr : &*found;
}

// The entries of these claims, in the order of the queue.
std::vector<QueueEntry> entries_of(const LockSnapshot& snapshot,
                                   const std::set<Token>& tokens) {
  std::vector<QueueEntry> found;
  if (tokens.empty()) return found;
  for (const auto& entry : snapshot.entries) {
    if (tokens.count(token_of(entry.id)) > 0) found.push_back(entry);
  }
  return found;
}

// The holders that lose the lock between the two states and do not know it yet.
std::vector<QueueEntry> losers(const LockSnapshot& snapshot, const rules::State& before,
                               const rules::State& after) {
  std::set<std::pair<Token, bool>> kept;
  for (const auto& holder : after.holders) {
    kept.emplace(holder.party.token, holder.broken);
  }
  std::set<Token> lost;
  for (const auto& holder : before.holders) {
    const auto& token = holder.party.token;
    if (kept.count({token, holder.broken}) == 0) lost.insert(token);
  }
  return entries_of(snapshot, lost);
}

// The waiters that a newer claim supersedes between the two states.
std::vector<QueueEntry> superseded(const LockSnapshot& snapshot,
                                   const rules::State& before,
                                   const rules::State& after) {
  std::set<Token> answered;
  for (const auto& one : after.answered) {
    if (one.newer) answered.insert(one.waiter.party.token);
  }
  std::set<Token> left;
  for (const auto& waiter : before.waiters) {
    if (answered.count(waiter.party.token) > 0) left.insert(waiter.party.token);
  }
  return entries_of(snapshot, left);
}

// A waiter has the fence of its place in the queue, unless others that came later had the
// lock meanwhile: readers within a reader, and those that took a slot sooner. It then
// gets one that is greater than any so far, and than that of none who comes later.
Fence fence_if_passed(const LockSnapshot& snapshot, const QueueEntry& own) {
  Fence greatest;
  for (const auto& run : snapshot.runs.past) {
    greatest = std::max(greatest, run.info.fence);
  }
  for (const auto& run : snapshot.runs.open) {
    const auto* entry = entry_of(snapshot, run.id);
    const bool holds = entry != nullptr && entry->holds();
    if (!holds) greatest = std::max(greatest, run.info.fence);
  }
  if (greatest < own.fence()) return {};
  const auto revision = static_cast<std::uint64_t>(snapshot.revision);
  return {std::max(greatest.number, revision) + 1};
}

}  // namespace

const QueueEntry* entry_of(const LockSnapshot& snapshot, std::string_view id) {
  const auto found = std::ranges::find_if(
      snapshot.entries, [&](const QueueEntry& entry) { return entry.id == id; });
  return found == snapshot.entries.end() ? nullptr : &*found;
}

bool is_holder(const LockSnapshot& snapshot, const QueueEntry& entry) {
  if (entry.holds()) return true;
  return entry.foreign && entry.id == snapshot.entries.front().id;
}

rules::State state_of(const LockSnapshot& snapshot, std::string_view id, unsigned slots) {
  rules::State state;
  state.slots = slots_in_use(snapshot, id).value_or(slots);
  for (const auto& entry : snapshot.entries) {
    if (is_holder(snapshot, entry)) {
      state.holders.push_back(as_holder(entry));
      continue;
    }
    auto waiter = as_waiter(entry);
    waiter.differs_in_slots =
        entry.mode == Mode::exclusive && !entry.foreign && entry.slots != state.slots;
    if (auto run = deduplicated_by(snapshot, entry)) {
      state.answered.push_back({std::move(waiter), std::move(*run)});
    } else {
      state.waiters.push_back(std::move(waiter));
    }
  }
  for (const auto& [waiter, newer] : snapshot.runs.told) {
    auto& answered = state.answered.emplace_back();
    answered.waiter.party.token = token_of(waiter);
    answered.newer = newer;
  }
  for (const auto& run : snapshot.runs.past) {
    state.runs.push_back(run.info);
    if (run.info.counts) state.past.note(run.info);
  }
  state.refused = snapshot.runs.refused;
  state.superseded = snapshot.runs.superseded;
  return state;
}

Decision decide(const LockSnapshot& snapshot, const Claim& claim, std::string_view id,
                Queue queue, WallTime now) {
  const auto* own = id.empty() ? nullptr : entry_of(snapshot, id);
  // Another program has written there.
  if (own != nullptr && own->foreign) {
    return decide(snapshot, claim, {}, Queue::stay_out, now);
  }
  auto asking = claim;
  asking.token = id.empty() ? Token{} : token_of(id);  // a key may have an empty id
  rules::Party party;
  party.token = asking.token;
  party.session = 1;
  const auto before = state_of(snapshot, id, claim.slots);
  auto after = before;
  rules::Consequences consequences;
  auto answer = rules::ask({after, moment_of(now), entries_live, consequences},
                           {asking, party, queue});

  Decision decision;
  decision.counts_as_refused = after.refused > before.refused;
  if (claim.supersedes) decision.give_way = superseded(snapshot, before, after);
  decision.lose = losers(snapshot, before, after);
  const bool waits = own != nullptr && !is_holder(snapshot, *own);
  const bool takes_more = decision.lose.size() > most_in_one_step;
  if (takes_more) decision.lose.resize(most_in_one_step);
  if (const auto* grant = std::get_if<Grant>(&answer)) {
    const auto holder = rules::holder_of(after, asking.token);
    decision.taken_by = holder->taken_by;
    decision.slot = grant->slot;
    if (waits) decision.given_fence = fence_if_passed(snapshot, *own);
    const bool held = own != nullptr && !waits && own->standing != Standing::ended;
    const auto asks_on = waits ? Decision::Kind::wait : Decision::Kind::join;
    decision.kind = held         ? Decision::Kind::held
                    : takes_more ? asks_on
                                 : Decision::Kind::enter;
    return decision;
  }
  const bool queues = rules::waiter_of(after, asking.token) != after.waiters.end();
  if (queues) decision.kind = waits ? Decision::Kind::wait : Decision::Kind::join;
  decision.answer = std::move(answer);
  return decision;
}

BreakDecision decide_on_break(const LockSnapshot& snapshot, const Break& order,
                              WallTime now) {
  const auto before = state_of(snapshot);
  auto after = before;
  Taker by;
  by.forced = order.by_force;
  rules::Consequences consequences;
  const auto meant = rules::break_leases(
      {after, moment_of(now), entries_live, consequences}, order.fences, by);
  BreakDecision decision;
  for (const auto& holder : meant) {
    decision.meant.push_back(rules::info_of(holder, moment_of(now)));
  }
  decision.lose = losers(snapshot, before, after);
  if (decision.lose.size() > most_in_one_step) decision.lose.resize(most_in_one_step);
  return decision;
}

const QueueEntry* outer_reader(const LockSnapshot& snapshot, const Claim& claim) {
  if (claim.mode != Mode::shared) return nullptr;
  const QueueEntry* outer = nullptr;
  for (const auto& entry : snapshot.entries) {
    if (entry.foreign) return nullptr;
    const bool holds = entry.holds() && entry.mode == Mode::shared;
    if (holds && rules::is_outer_run(claim, as_holder(entry))) outer = &entry;
  }
  return outer;
}

std::optional<Taker> replacer(const LockSnapshot& snapshot, std::string_view id) {
  auto state = state_of(snapshot);
  rules::Consequences consequences;
  rules::tidy({state, {}, entries_live, consequences});
  std::erase_if(state.waiters, [&](const rules::Waiter& waiter) {
    return waiter.party.token == token_of(id);
  });
  const auto* waiter = rules::replacer(state, {}, entries_live);
  if (waiter == nullptr) return std::nullopt;
  return rules::replacing(waiter->party);
}

bool can_be_set_up_again(const LockSnapshot& snapshot, const QueueEntry& lost) {
  // A waiter is in the way, because it decides by the entries in front of it.
  const bool others_come_first =
      std::ranges::any_of(snapshot.entries, [&](const QueueEntry& entry) {
        return !entry.holds() || entry.fence() > lost.fence();
      });
  if (others_come_first) return false;
  auto state = state_of(snapshot, lost.id, lost.slots);
  const auto note_grant = [&](const RunInfo& run, const Token& claim_granted) {
    if (run.fence <= state.last_fence) return;
    state.last_fence = run.fence;
    state.last_claim = claim_granted;
  };
  for (const auto& run : snapshot.runs.past) note_grant(run.info, {});
  for (const auto& run : snapshot.runs.open) note_grant(run.info, token_of(run.id));
  Claim claim;
  claim.mode = lost.mode;
  claim.slots = lost.slots;
  return rules::can_be_restored(state, claim, as_holder(lost), {});
}

WatchedKeys watched_by(const LockSnapshot& snapshot, const QueueEntry& waiter) {
  // A claim that depends on what happens to others.
  if (waiter.dedupe || waiter.replaces || waiter.supersedes) return {"", true};
  const auto state = state_of(snapshot, waiter.id, waiter.slots);
  const auto waits = rules::waits_for(state, token_of(waiter.id), {});
  if (waits.predecessor != nullptr) {
    // With slots, its turn may also come when the waiter in front takes another slot.
    return {entry_with(snapshot, waits.predecessor->token)->id,
            waiter.slots > 1 || waiter.mode == Mode::shared};
  }
  if (waits.holders.size() != 1) return {"", false};
  return {entry_with(snapshot, waits.holders.front()->party.token)->id, false};
}

LockInfo info_of(const LockSnapshot& snapshot, const LockName& lock, WallTime now) {
  auto state = state_of(snapshot);
  const auto kept = kept_runs(snapshot.runs, snapshot.entries, now);
  const auto last = std::ranges::find_if_not(kept, is_by_hand);
  if (last != kept.end()) state.last_run = *last;
  const bool is_known = !snapshot.entries.empty() || !snapshot.runs.past.empty() ||
                        !snapshot.runs.open.empty() || snapshot.runs.refused > 0;
  state.used = WallTime(is_known ? 1 : 0);
  return rules::info_of(state, lock, moment_of(now), entries_live);
}

std::vector<RunInfo> history_of(const LockSnapshot& snapshot, WallTime now) {
  auto runs = rules::runs_of_holders(state_of(snapshot), moment_of(now), entries_live);
  auto kept = kept_runs(snapshot.runs, snapshot.entries, now);
  runs.insert(runs.end(), kept.begin(), kept.end());
  return as_history(std::move(runs), now);
}

namespace {

// Why holders of `before` may hold no longer.
rules::Cause cause_of(const LockSnapshot& before, const RunChanges& aside) {
  rules::Cause cause;
  for (const auto& entry : before.entries) {
    if (!is_holder(before, entry)) continue;
    if (const auto taken = aside.taken.find(entry.id); taken != aside.taken.end()) {
      cause.broken.push_back(entry.fence());
      cause.taken_by = taken->second;
      continue;
    }
    if (aside.closed.count(entry.id) > 0) cause.released_by = token_of(entry.id);
    for (const auto& run : aside.ended) {
      if (run.info.fence != entry.fence()) continue;
      cause.released_by = token_of(entry.id);
      if (!is_by_hand(run.info)) cause.end.emplace().outcome = run.info.outcome;
    }
  }
  return cause;
}

// A waiter for which a run counts is shown until it leaves the queue.
rules::State state_to_watch(LockSnapshot snapshot) {
  for (auto& entry : snapshot.entries) entry.dedupe.reset();
  return state_of(snapshot);
}

}  // namespace

std::vector<Event> events_between(const LockSnapshot& before, const LockSnapshot& after,
                                  const RunChanges& aside, const LockName& lock,
                                  WallTime now) {
  auto events = rules::events_between(state_to_watch(before), state_to_watch(after), lock,
                                      cause_of(before, aside), moment_of(now));
  for (auto& event : events) {
    for (const auto& run : aside.ended) {
      if (event.run && event.run->fence == run.info.fence) event.run = run.info;
    }
  }
  return events;
}

}  // namespace dlock::etcd
