#include "store/etcd/decision.hpp"

#include <algorithm>

#include "lock/dedupe.hpp"
#include "store/etcd/snapshot_view.hpp"

namespace dlock::etcd {
namespace {

bool is_outer_run(const Claim& claim, const Entry& entry) {
  return entry.holds() && entry.standing != Standing::ended &&
         std::find(claim.outer_fences.begin(), claim.outer_fences.end(), entry.fence()) !=
             claim.outer_fences.end();
}

// The fence of an outer run that the claim would wait for without end.
std::optional<Fence> blocking_outer_run(const LockSnapshot& snapshot, const Claim& claim,
                                        std::string_view id) {
  if (claim.outer_fences.empty()) return std::nullopt;
  std::optional<Fence> above;
  bool others = false;
  for (const auto& entry : snapshot.entries) {
    if (entry.id == id) continue;
    if (is_outer_run(claim, entry)) {
      above = entry.fence();
    } else if (is_holder(snapshot, entry) || has_its_turn(snapshot, entry)) {
      others = true;
    }
  }
  // Another holder's slot can become free.
  const bool can_wait = claim.mode == Mode::exclusive && claim.slots > 1 && others;
  return can_wait ? std::nullopt : above;
}

// Whether a claim at the end of the queue can take the lock.
bool can_enter(const LockSnapshot& snapshot, const Claim& claim) {
  const auto own = entry_for(claim, {});
  if (outer_reader(snapshot, claim) != nullptr) return occupancy_of(snapshot).admits(own);
  auto occupancy = occupancy_of(snapshot);
  for (const auto* waiter : waiting(snapshot)) {
    if (!occupancy.admits(*waiter)) return false;
    occupancy.add(*waiter);
  }
  return occupancy.admits(own);
}

PastRuns past_of(const LockSnapshot& snapshot, WallTime now) {
  PastRuns past;
  auto runs = vanished(snapshot.runs, snapshot.entries, now);
  for (const auto& run : snapshot.runs.past) runs.push_back(run.info);
  std::sort(runs.begin(), runs.end(),
            [](const RunInfo& a, const RunInfo& b) { return a.fence < b.fence; });
  for (const auto& run : runs) {
    if (run.counts) past.note(run);
  }
  return past;
}

// The run against which an asking claim is deduplicated.
std::optional<RunInfo> counting_run(const LockSnapshot& snapshot, const Dedupe& dedupe,
                                    Queue queue, WallTime now) {
  const bool waits = dedupe.joins || (dedupe.retry_failed && queue == Queue::join);
  for (const auto& entry : snapshot.entries) {
    if (waits || entry.standing != Standing::holds || !entry.counts()) continue;
    return run_of_holder(entry);
  }
  const auto past = past_of(snapshot, now);
  const auto* run = past.counting_for(dedupe, now);
  return run == nullptr ? std::nullopt : std::optional(*run);
}

bool is_full(const LockSnapshot& snapshot, const Claim& claim) {
  if (!claim.max_queue) return false;
  const auto waiters = waiting(snapshot);
  const auto counted = std::count_if(
      waiters.begin(), waiters.end(),
      [&](const Entry* waiter) { return !(claim.supersedes && waiter->supersedes); });
  return counted >= static_cast<std::ptrdiff_t>(*claim.max_queue);
}

Decision answered(Answer answer) {
  Decision decision;
  decision.answer = std::move(answer);
  return decision;
}

// The holders that lose the lock to a claim with --replace and are not yet marked; as
// many as fit into one transaction.
std::vector<Entry> losers(const LockSnapshot& snapshot, const Claim& claim) {
  std::vector<Entry> found;
  for (const auto& entry : snapshot.entries) {
    if (found.size() == most_in_one_step) break;
    if (!is_holder(snapshot, entry) || is_outer_run(claim, entry)) continue;
    if (entry.standing != Standing::broken) found.push_back(entry);
  }
  return found;
}

// The snapshot after those entries have given way.
LockSnapshot without(const LockSnapshot& snapshot, const Decision& decision) {
  LockSnapshot left = snapshot;
  const auto goes = [](const std::vector<Entry>& some, const Entry& entry) {
    return std::any_of(some.begin(), some.end(),
                       [&](const Entry& one) { return one.id == entry.id; });
  };
  std::erase_if(left.entries, [&](const Entry& entry) {
    if (goes(decision.give_way, entry)) return true;
    return goes(decision.lose, entry) && !is_told_of_loss(entry);
  });
  for (auto& entry : left.entries) {
    if (goes(decision.lose, entry)) entry.standing = Standing::broken;
  }
  return left;
}

Decision for_waiter(const LockSnapshot& snapshot, const Claim& claim, const Entry& own,
                    Queue queue, WallTime now) {
  Decision decision;
  auto after = snapshot;
  if (has_its_turn(snapshot, own)) {
    decision.kind = Decision::Kind::enter;
  } else {
    decision.kind = Decision::Kind::wait;
    if (claim.replaces) decision.lose = losers(snapshot, claim);
    after = without(snapshot, decision);
    if (has_its_turn(after, own)) decision.kind = Decision::Kind::enter;
  }
  if (decision.kind == Decision::Kind::enter) {
    decision.slot = claim.mode == Mode::shared ? 0 : free_slot(after);
    return decision;
  }
  decision.answer = busy(after, &own, now);
  decision.counts_as_refused = queue == Queue::refuse;
  return decision;
}

Decision for_newcomer(const LockSnapshot& snapshot, const Claim& claim,
                      std::string_view id, Queue queue, WallTime now) {
  Decision decision;
  const bool enters = can_enter(snapshot, claim);
  if (!enters) {
    if (const auto above = blocking_outer_run(snapshot, claim, id)) {
      return answered(HeldByOuterRun{*above});
    }
    const bool is_refused = queue == Queue::refuse || is_full(snapshot, claim);
    if (queue == Queue::stay_out || is_refused) {
      decision = answered(busy(snapshot, nullptr, now));
      decision.counts_as_refused = is_refused && queue != Queue::stay_out;
      return decision;
    }
  }
  if (claim.supersedes) {
    for (const auto* waiter : waiting(snapshot)) {
      if (waiter->supersedes) decision.give_way.push_back(*waiter);
    }
  }
  if (!enters && claim.replaces) decision.lose = losers(snapshot, claim);
  const auto after = without(snapshot, decision);
  if (can_enter(after, claim)) {
    decision.kind = Decision::Kind::enter;
    decision.slot = claim.mode == Mode::shared ? 0 : free_slot(after);
    return decision;
  }
  decision.kind = Decision::Kind::join;
  auto answer = busy(after, nullptr, now);
  answer.place = ++answer.queued;
  decision.answer = std::move(answer);
  return decision;
}

}  // namespace

Decision decide(const LockSnapshot& snapshot, const Claim& claim, std::string_view id,
                Queue queue, WallTime now) {
  const auto* own = entry_of(snapshot, id);
  if (own != nullptr && own->holds() && own->standing != Standing::ended) {
    Decision decision;
    decision.kind = Decision::Kind::held;
    return decision;
  }
  for (const auto& [waiter, newer] : snapshot.runs.told) {
    if (waiter == id) return answered(newer);
  }
  if (own != nullptr) {
    if (auto run = deduplicated_by(snapshot, *own)) return answered(Deduplicated{*run});
  }
  const auto slots = slots_in_use(snapshot, id);
  if (slots && *slots != claim.slots) return answered(SlotsDiffer{*slots});
  if (claim.dedupe) {
    if (const auto above = blocking_outer_run(snapshot, claim, id)) {
      return answered(HeldByOuterRun{*above});
    }
    if (auto run = counting_run(snapshot, *claim.dedupe, queue, now)) {
      return answered(Deduplicated{*run});
    }
  }
  const bool waits = own != nullptr && own->standing == Standing::waits;
  return waits ? for_waiter(snapshot, claim, *own, queue, now)
               : for_newcomer(snapshot, claim, id, queue, now);
}

const Entry* outer_reader(const LockSnapshot& snapshot, const Claim& claim) {
  if (claim.mode != Mode::shared) return nullptr;
  const Entry* outer = nullptr;
  for (const auto& entry : snapshot.entries) {
    if (entry.foreign) return nullptr;
    if (entry.mode == Mode::shared && is_outer_run(claim, entry)) outer = &entry;
  }
  return outer;
}

const Entry* replacer(const LockSnapshot& snapshot, std::string_view id) {
  for (const auto* waiter : waiting(snapshot)) {
    if (waiter->replaces && waiter->id != id && !has_its_turn(snapshot, *waiter)) {
      return waiter;
    }
  }
  return nullptr;
}

}  // namespace dlock::etcd
