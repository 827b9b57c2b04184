// What the judge of a schedule looks for; docs/promises.md has the promises.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/simulation/world.hpp"

namespace dlock::simulation {
namespace {

std::string name(const Run& run) { return "run " + std::to_string(run.number); }

Time nanos(milliseconds span) { return nanoseconds(span).count(); }

}  // namespace

void World::broken(const std::string& promise, const std::string& how) {
  if (!complaint_.empty()) return;
  std::ostringstream text;
  text << promise << " is broken "
       << static_cast<double>(kernel_.now - 1000 * second) / second
       << " s after the start: " << how;
  complaint_ = text.str();
  kernel_.trace(complaint_);
}

// On the others, members know what each of them has executed.
std::size_t World::majority() const {
  return kind_ == StoreKind::quorum ? servers_.size() / 2 + 1 : 1;
}

// Servers of a quorum may have granted one run different fences, or two runs the same
// one: what counts is whose a lease is. A run that has the lock knows the fence of most
// servers.
World::Leases World::leases() {
  std::map<std::pair<const Run*, std::uint64_t>, std::vector<Time>> votes;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    for (const auto& [fence, ends] : servers_[i]->leases()) {
      const auto owner = owners_.find({i, fence});
      const auto* run = owner == owners_.end() ? nullptr : owner->second;
      votes[{run, run != nullptr && run->fence != 0 ? run->fence : fence}].push_back(
          ends);
    }
  }
  Leases leases;
  for (auto& [fence, ends] : votes) {
    if (ends.size() < majority()) continue;
    std::sort(ends.begin(), ends.end());
    leases[fence.second] = ends[ends.size() - majority()];
  }
  return leases;
}

std::optional<Time> World::lease_of(const Run& run) {
  const auto all = leases();
  const auto found = all.find(run.fence);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

// Whatever was granted since the last request is known to a server that runs. (A quorum
// repairs leases by such requests.)
bool World::is_excused(const Run& run) const {
  if (forced_.count(run.fence) > 0) return true;
  const bool repairs = kind_ == StoreKind::quorum;
  return forgot_ >= (repairs ? run.began : run.process.last_request);
}

void World::command_started(Run& run) {
  ++commands_;
  run.command_began = kernel_.now;
  kernel_.trace("the command of " + name(run) + " starts, fence " +
                std::to_string(run.fence));
  // A grant before a server lost its data may start after one that followed.
  const bool is_alone = slots_ == 1 && !run.options.shared;
  if (is_alone && run.fence <= greatest_fence_ && !is_excused(run)) {
    broken("P5", name(run) + " has a fence that is not greater than all before");
  }
  greatest_fence_ = std::max(greatest_fence_, run.fence);
  for (const auto& other : runs_) {
    if (other.get() == &run || !other->guardian->is_alive) continue;
    if (run.options.shared && other->options.shared) continue;
    if (slots_ > 1 && run.slot != other->slot && run.slot < slots_) continue;
    const bool excused = is_excused(*other) || is_excused(run);
    const bool is_forced =
        forced_.count(other->fence) > 0 || forced_.count(run.fence) > 0;
    if (is_forced || (kind_ != StoreKind::quorum && excused)) continue;
    broken("P1",
           "the commands of " + name(*other) + " and " + name(run) + " run at once");
  }
  const auto lease = lease_of(run);
  if (!lease && !is_excused(run)) {
    broken("P9", "the command of " + name(run) + " starts without the lock");
  }
  if (lease) run.lease_seen_until = *lease;
  judge_order(run);
}

// Whether one that has waited for a second longer, and matters as much, is still there.
void World::judge_order(const Run& run) {
  if (kind_ == StoreKind::quorum || slots_ > 1 || has_readers_ || has_takers_) return;
  if (!is_steady()) return;
  for (const auto& other : runs_) {
    const auto& its = other->options;
    const bool waits = other->context && other->fence == 0 && its.wait;
    const bool may_leave = !waits || its.dedupe || its.supersede ||
                           (*its.wait != milliseconds::max() &&
                            other->began + nanos(*its.wait) < kernel_.now + second);
    if (may_leave || other->began + second > run.began) continue;
    if (its.priority > run.options.priority) continue;
    broken("P6", name(run) + " gets the lock before " + name(*other));
  }
}

void World::command_ended(Run& run, bool by_itself) {
  const bool is_held = lease_of(run).has_value();
  run.command_ended = kernel_.now;
  run.was_held_at_end = by_itself && is_held;
  kernel_.trace("the command of " + name(run) + " has ended" + (is_held ? "" : " late"));
  if (is_held) return;
  if (!is_excused(run)) {
    broken("P2", "the command of " + name(run) + " outlives its lease");
  } else if (kind_ == StoreKind::redis && kernel_.now > forgot_ + ttl_ &&
             forced_.count(run.fence) == 0 && run.command_began < forgot_) {
    broken("P3", "the command of " + name(run) +
                     " runs for longer than a ttl after its lease was forgotten");
  }
}

void World::executed(std::size_t server, const Process& by, Peer::Act act) {
  const auto sender = std::find_if(runs_.begin(), runs_.end(),
                                   [&](const auto& run) { return &run->process == &by; });
  if (kind_ == StoreKind::quorum && act == Peer::Act::ask && sender != runs_.end()) {
    for (const auto& [fence, ends] : servers_[server]->leases()) {
      owners_.emplace(std::pair(server, fence), sender->get());
    }
  }
  const auto held = leases();
  look_at(held);
  note_whether_released(held, act);
  if (sender == runs_.end()) return;
  auto& run = **sender;
  delay_reply(run);
  const auto is_of_another = [&](const auto& lease) { return lease.first != run.fence; };
  if (std::any_of(held.begin(), held.end(), is_of_another)) run.met_holder = kernel_.now;
  const auto before = granted_;
  if (!held.empty()) granted_ = std::max(granted_, held.rbegin()->first);
  if (act == Peer::Act::partial_release) run.partly_released = kernel_.now;
  if (act == Peer::Act::release) {
    run.releases[server] = kernel_.now;
    const auto count =
        std::count_if(run.releases.begin(), run.releases.end(),
                      [&](const auto& one) { return one.second > by.last_request; });
    if (static_cast<std::size_t>(count) >= majority()) run.released = kernel_.now;
    run.granted_before_release = before;
  }
  const bool is_new = act == Peer::Act::ask && granted_ > before;
  // A server that takes over may not know of the release.
  const bool fails_over = kind_ == StoreKind::sentinel || kind_ == StoreKind::cluster;
  if (!is_new || !run.result || (fails_over && is_excused(run))) return;
  // Whatever was sent, no request comes after a withdrawal that got its reply.
  const bool was_withdrawn = run.fence == 0 || run.partly_released > by.last_request;
  if (run.released > by.last_request || (was_withdrawn && !run.result->may_still_get)) {
    broken("P8", "a late request of " + name(run) + ", which has ended, gets the lock");
  }
}

void World::look_at(const Leases& held) {
  for (const auto& run : runs_) {
    if (!run->guardian->is_alive || is_excused(*run)) continue;
    const auto lease = held.find(run->fence);
    if (lease != held.end()) {
      run->lease_seen_until = lease->second;
    } else if (run->lease_seen_until > kernel_.now) {
      broken("P4", name(*run) + " has lost a lease that was not over");
    }
  }
}

void World::note_whether_released(const Leases& held, Peer::Act act) {
  const bool was_held =
      std::any_of(held_.begin(), held_.end(),
                  [this](const auto& lease) { return lease.second > kernel_.now; });
  if (act == Peer::Act::release && was_held && held.empty()) was_released_ = true;
  if (!held.empty()) was_released_ = false;
  held_ = held;
}

// Whether only a holder may have failed, and no waiter, and nothing is late or lost: then
// whoever comes next is there and was told.
bool World::is_calm() const {
  const bool may_be_late =
      has_late_packets_ || kernel_.network.latest_ask > 0 || late_replies_ > 0;
  const bool may_be_lost = std::any_of(faults_.begin(), faults_.end(), [](Fault fault) {
    return fault == Fault::crash || fault == Fault::cut;
  });
  if (may_be_late || may_be_lost || left_waiters_ > 0) return false;
  return std::none_of(runs_.begin(), runs_.end(), [](const auto& run) {
    return run->fence == 0 && run->last_fault > 0;
  });
}

// Whether, besides, the server replies at any time: no promise lapses, and no place.
bool World::is_steady() const {
  return is_calm() && std::all_of(faults_.begin(), faults_.end(), [](Fault fault) {
           return fault == Fault::hit || fault == Fault::guardian;
         });
}

// How long a free lock may have no holder: a promise to a dead waiter has to lapse, which
// a living one watches if the lock was released, whoever died or left. If a lease ended,
// no waiter is told: those behind the second waiter ask the less often the further back
// they are, in case all before them died with the holder.
Time World::longest_idleness() const {
  if (is_calm()) return was_released_ ? 500 * millisecond : 3 * second;
  const auto promises = 12 * second + kernel_.network.latest;
  if (was_released_) return promises;
  const auto disturbed =
      left_waiters_ + std::count_if(runs_.begin(), runs_.end(), [&](const auto& run) {
        const bool has_just_left = run->result &&
                                   run->result->outcome == RunOutcome::busy &&
                                   std::abs(run->ended - in_use_) < 3 * second;
        const bool is_late = run->context && run->fence == 0 && run->last_fault > 0;
        return has_just_left || is_late;
      });
  const auto pause =
      disturbed < 2 ? 0 : (2500 * millisecond) << std::min(disturbed - 1, 5L);
  return promises + std::min(pause, 45 * second);
}

void World::look_for_idleness() {
  const auto now = kernel_.now;
  if (is_over()) return;
  // A claim on etcd takes several requests, each of which has to be answered in time.
  if (kind_ == StoreKind::etcd && now < faults_end_) in_use_ = now;
  const auto grace = is_calm() ? second : 3 * second;
  const bool waits = std::any_of(runs_.begin(), runs_.end(), [&](const auto& run) {
    return run->context && run->fence == 0 && run->process.stopped_until < now &&
           std::max(run->began, run->last_fault) + grace < now;
  });
  if (!waits || !leases().empty()) in_use_ = std::max(in_use_, now);
  if (now - in_use_ > longest_idleness()) {
    broken("P6", "the lock is free, and no run gets it");
  }
  kernel_.at(now + 250 * millisecond, [this] { look_for_idleness(); });
}

void World::judge_end(const Run& run) {
  const auto& result = *run.result;
  if (run.error) {
    try {
      std::rethrow_exception(run.error);
    } catch (const Failure&) {
    } catch (const std::exception& error) {
      broken("P9", name(run) + " ends by an exception: " + error.what());
    }
    return;
  }
  if (result.outcome == RunOutcome::lost) ++losses_;
  const bool says_held = (result.outcome == RunOutcome::ran && result.exit_code == 0) ||
                         (result.is_protected == true && result.ran);
  // That the server has forgotten it can only be learned from its reply, which another
  // crash may prevent. In a quorum, the others keep the lock from being granted.
  const bool is_asked = kind_ == StoreKind::redis && run.released > run.command_ended &&
                        run.last_fault + second < run.released &&
                        forgot_ < run.released && !has_late_packets_;
  // A lease that is restored before another run was granted the lock was never free.
  const bool may_be_restored =
      run.options.reclaim &&
      (slots_ > 1 || has_readers_ || run.granted_before_release == run.fence);
  const bool can_know = !is_excused(run) || (is_asked && !may_be_restored);
  if (says_held && can_know && !run.was_held_at_end &&
      run.guardian->end.signal != SIGKILL) {
    broken("P12", name(run) + " reports success without having held the lock to the end");
  }
  const bool counts = std::any_of(runs_.begin(), runs_.end(), [&](const auto& other) {
    if (other.get() == &run) return false;
    // One that could not withdraw its request may be granted the lock once it has ended.
    const bool may_hold = !other->result || other->result->may_still_get;
    return may_hold || (other->result->ran && other->result->outcome != RunOutcome::lost);
  });
  // One that was running when the server was asked, and is lost since.
  const auto decided = std::max(run.met_holder, run.last_fault);
  const bool counted =
      run.met_holder > 0 && run.ended < decided + nanos(2 * run.timing->budget());
  if (result.outcome == RunOutcome::deduplicated && !counts && !counted) {
    broken("P12", name(run) + " is skipped, and no other run counts");
  }
  judge_wait(run);
}

// Whatever other processes, servers and networks do, a wait ends in time; at once if they
// do nothing.
void World::judge_wait(const Run& run) {
  const auto outcome = run.result->outcome;
  const bool has_waited =
      run.fence == 0 &&
      (outcome == RunOutcome::busy || outcome == RunOutcome::unavailable ||
       outcome == RunOutcome::deduplicated || outcome == RunOutcome::superseded);
  const auto wait = run.options.wait.value_or(milliseconds(0));
  if (!has_waited || wait == milliseconds::max()) return;
  const auto budget = store_timeout(run.invocation->common, run.options.ttl);
  const bool is_undisturbed = is_steady() && run.last_fault == 0;
  const auto most = is_undisturbed ? 30 * kernel_.network.most + 50 * millisecond
                                   : nanos(budget + milliseconds(250));
  if (run.ended > std::max(run.began + nanos(wait), run.process.stopped_until) + most) {
    broken("P7", name(run) + " waits for longer than it was asked to");
  }
}

}  // namespace dlock::simulation
