#include "store/etcd/line.hpp"

#include <algorithm>

#include "lock/dedupe.hpp"

namespace dlock::etcd {
namespace {

// What stands in the way of those who come after.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;
  unsigned slots = 1;  // of the exclusive ones

  void add(const Entry& entry) {
    ++(entry.mode == Mode::shared ? shared : exclusive);
    if (entry.mode == Mode::exclusive) slots = entry.slots;
  }
  bool admits(const Entry& entry) const {
    if (exclusive + shared == 0) return true;
    if (entry.mode == Mode::shared) return exclusive == 0;
    return shared == 0 && entry.slots == slots && exclusive < slots;
  }
};

Occupancy of_holders(const Line& line) {
  Occupancy occupancy;
  for (const auto& entry : line.entries) {
    if (is_holder(line, entry)) occupancy.add(entry);
  }
  return occupancy;
}

bool is_above(const Claim& claim, const Entry& entry) {
  return entry.holds() && entry.standing != Standing::ended &&
         std::find(claim.held_above.begin(), claim.held_above.end(), entry.fence()) !=
             claim.held_above.end();
}

// A reader below a reader enters even if a writer waits: that writer waits for the outer
// run, which waits for this one.
bool joins_outer_reader(const Line& line, const Claim& claim) {
  return claim.mode == Mode::shared &&
         std::any_of(line.entries.begin(), line.entries.end(), [&](const Entry& entry) {
           return entry.mode == Mode::shared && is_above(claim, entry);
         });
}

// Waiting would never end; what it would wait for.
std::optional<Fence> blocked_from_above(const Line& line, const Claim& claim,
                                        std::string_view id) {
  if (claim.held_above.empty()) return std::nullopt;
  std::optional<Fence> above;
  bool others = false;
  for (const auto& entry : line.entries) {
    if (entry.id == id) continue;
    if (is_above(claim, entry)) {
      above = entry.fence();
    } else if (is_holder(line, entry) || has_its_turn(line, entry)) {
      others = true;
    }
  }
  // Somebody else's slot can become free.
  const bool can_wait = claim.mode == Mode::exclusive && claim.slots > 1 && others;
  return can_wait ? std::nullopt : above;
}

// At the end of the line.
bool can_enter(const Line& line, const Claim& claim) {
  const auto own = entry_for(claim, {});
  if (joins_outer_reader(line, claim)) return of_holders(line).admits(own);
  auto occupancy = of_holders(line);
  for (const auto* waiter : waiting(line)) {
    if (!occupancy.admits(*waiter)) return false;
    occupancy.add(*waiter);
  }
  return occupancy.admits(own);
}

PastRuns past_of(const Line& line, WallTime now) {
  PastRuns past;
  auto runs = vanished(line.runs, line.entries, now);
  for (const auto& run : line.runs.past) runs.push_back(run.info);
  std::sort(runs.begin(), runs.end(),
            [](const RunInfo& a, const RunInfo& b) { return a.fence < b.fence; });
  for (const auto& run : runs) {
    if (run.counts) past.note(run);
  }
  return past;
}

// A run that counts as that of a claim that asks.
std::optional<RunInfo> counting_run(const Line& line, const Dedupe& dedupe, Queue queue,
                                    WallTime now) {
  const bool waits = dedupe.joins || (dedupe.retry_failed && queue == Queue::join);
  for (const auto& entry : line.entries) {
    if (waits || entry.standing != Standing::holds || !entry.counts()) continue;
    return run_of_holder(entry);
  }
  const auto past = past_of(line, now);
  const auto* run = past.counting_for(dedupe, now);
  return run == nullptr ? std::nullopt : std::optional(*run);
}

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

bool is_full(const Line& line, const Claim& claim) {
  if (!claim.max_queue) return false;
  const auto waiters = waiting(line);
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

// Those who lose the lock to a claim that takes it, and do not know of that yet; as many
// as go into one transaction.
std::vector<Entry> losers(const Line& line, const Claim& claim) {
  std::vector<Entry> found;
  for (const auto& entry : line.entries) {
    if (found.size() == most_in_one_step) break;
    if (!is_holder(line, entry) || is_above(claim, entry)) continue;
    if (entry.standing != Standing::broken) found.push_back(entry);
  }
  return found;
}

// As `line` will be when those have given way.
Line without(const Line& line, const Decision& decision) {
  Line left = line;
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

Decision for_waiter(const Line& line, const Claim& claim, const Entry& own, Queue queue,
                    WallTime now) {
  Decision decision;
  auto after = line;
  if (has_its_turn(line, own)) {
    decision.kind = Decision::Kind::enter;
  } else {
    decision.kind = Decision::Kind::wait;
    if (claim.replaces) decision.lose = losers(line, claim);
    after = without(line, decision);
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

Decision for_newcomer(const Line& line, const Claim& claim, std::string_view id,
                      Queue queue, WallTime now) {
  Decision decision;
  const bool enters = can_enter(line, claim);
  if (!enters) {
    if (const auto above = blocked_from_above(line, claim, id)) {
      return answered(HeldAbove{*above});
    }
    const bool is_refused = queue == Queue::refuse || is_full(line, claim);
    if (queue == Queue::stay_out || is_refused) {
      decision = answered(busy(line, nullptr, now));
      decision.counts_as_refused = is_refused && queue != Queue::stay_out;
      return decision;
    }
  }
  if (claim.supersedes) {
    for (const auto* waiter : waiting(line)) {
      if (waiter->supersedes) decision.give_way.push_back(*waiter);
    }
  }
  if (!enters && claim.replaces) decision.lose = losers(line, claim);
  const auto after = without(line, decision);
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
  auto occupancy = of_holders(line);
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

Decision decide(const Line& line, const Claim& claim, std::string_view id, Queue queue,
                WallTime now) {
  const auto* own = entry_of(line, id);
  if (own != nullptr && own->holds() && own->standing != Standing::ended) {
    Decision decision;
    decision.kind = Decision::Kind::held;
    return decision;
  }
  for (const auto& [waiter, newer] : line.runs.told) {
    if (waiter == id) return answered(newer);
  }
  if (own != nullptr) {
    if (auto run = dismissed_by(line, *own)) return answered(Deduplicated{*run});
  }
  const auto slots = slots_in_use(line, id);
  if (slots && *slots != claim.slots) return answered(SlotsDiffer{*slots});
  if (claim.dedupe) {
    if (const auto above = blocked_from_above(line, claim, id)) {
      return answered(HeldAbove{*above});
    }
    if (auto run = counting_run(line, *claim.dedupe, queue, now)) {
      return answered(Deduplicated{*run});
    }
  }
  const bool waits = own != nullptr && own->standing == Standing::waits;
  return waits ? for_waiter(line, claim, *own, queue, now)
               : for_newcomer(line, claim, id, queue, now);
}

const Entry* replacer(const Line& line, std::string_view id) {
  for (const auto* waiter : waiting(line)) {
    if (waiter->replaces && waiter->id != id && !has_its_turn(line, *waiter)) {
      return waiter;
    }
  }
  return nullptr;
}

Busy busy(const Line& line, const Entry* own, WallTime now) {
  Busy answer;
  for (const auto& entry : line.entries) {
    if (is_holder(line, entry)) answer.holders.push_back(holder_info(entry, now));
  }
  const auto waiters = waiting(line);
  answer.queued = waiters.size();
  for (std::size_t i = 0; own != nullptr && i < waiters.size(); ++i) {
    if (waiters[i]->id == own->id) answer.place = i + 1;
  }
  return answer;
}

LockInfo info_of(const Line& line, const LockName& lock, WallTime now) {
  LockInfo info;
  info.lock = lock;
  info.now = now;
  info.refused = line.runs.refused;
  info.superseded = line.runs.superseded;
  Occupancy occupancy;
  for (const auto& entry : line.entries) {
    if (!is_holder(line, entry)) continue;
    occupancy.add(entry);
    info.mode = entry.mode;
    info.holders.push_back(holder_info(entry, now));
  }
  for (const auto* waiter : waiting(line)) {
    info.waiters.push_back(waiter_info(*waiter, now));
  }
  const auto kept = kept_runs(line.runs, line.entries, now);
  const auto last = std::find_if_not(kept.begin(), kept.end(), is_by_hand);
  if (last != kept.end()) info.last_run = *last;
  std::vector<RunInfo> past;
  for (const auto& run : line.runs.past) past.push_back(run.info);
  info.last_success = last_success_of(past, std::nullopt);
  info.known = !line.entries.empty() || !line.runs.past.empty() ||
               !line.runs.open.empty() || info.refused > 0;
  info.slots = slots_in_use(line, {}).value_or(1);
  const auto taken = occupancy.shared > 0 ? info.slots : occupancy.exclusive;
  info.free = info.slots - std::min(taken, info.slots);
  return info;
}

bool can_be_set_up_again(const Line& line, const Entry& lost) {
  const auto later_than_lost = [&](Fence fence) { return fence > lost.fence(); };
  for (const auto& run : line.runs.past) {
    if (later_than_lost(run.info.fence)) return false;
  }
  for (const auto& run : line.runs.open) {
    if (later_than_lost(run.info.fence)) return false;
  }
  // Those who wait and were promised it are in the way, and holders unless they had
  // their slots, or read, beside it.
  Occupancy occupancy;
  for (const auto& entry : line.entries) {
    if (!is_holder(line, entry) && !has_its_turn(line, entry)) continue;
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
