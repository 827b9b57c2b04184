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

// Whether both need the same lock of --also.
bool need_the_same(const Run& one, const Run& other) {
  const auto& also = one.options.also;
  const auto& its = other.options.also;
  return !also.empty() && !its.empty() && also.front().name == its.front().name;
}

// Whether both may have the main lock.
bool may_share(const Run& one, const Run& other) {
  if (one.options.shared && other.options.shared) return true;
  return one.options.slots > 1 && one.options.slots == other.options.slots &&
         one.slot != other.slot && one.slot < one.options.slots;
}

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
World::Leases World::leases(const std::string& lock) {
  std::map<std::pair<const Run*, std::uint64_t>, std::vector<Time>> votes;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    for (const auto& [fence, ends] : servers_[i]->leases(lock)) {
      const auto owner = owners_.find({lock, i, fence});
      const auto* run = owner == owners_.end() ? nullptr : owner->second;
      const auto its = run == nullptr      ? 0
                       : lock == main_lock ? run->fence
                                           : run->also_fence;
      votes[{run, its != 0 ? its : fence}].push_back(ends);
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

// Whether it has the lock of --also, if it needs one.
bool World::has_also(const Run& run) {
  const auto& also = run.options.also;
  return also.empty() || leases(also.front().name).count(run.also_fence) > 0;
}

std::optional<Time> World::lease_of(const Run& run) {
  const auto all = leases(main_lock);
  const auto found = all.find(run.fence);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

// Whatever was granted since the last request is known to a server that runs. (A quorum
// repairs leases by such requests, and the last one may be for another lock.)
bool World::is_excused(const Run& run) const {
  if (forced_.count(run.fence) > 0) return true;
  if (kind_ == StoreKind::postgres) {  // where each request is one for the lock
    const auto granted = granted_at_.find(run.fence);
    return forgot_ >
           std::max(run.confirmed, granted == granted_at_.end() ? 0 : granted->second);
  }
  const bool asks_later = kind_ == StoreKind::quorum || !run.options.also.empty();
  return forgot_ >= (asks_later ? run.began : run.process.last_request);
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
    if (may_share(run, *other) && !need_the_same(run, *other)) continue;
    const bool excused = is_excused(*other) || is_excused(run);
    const bool is_forced =
        forced_.count(other->fence) > 0 || forced_.count(run.fence) > 0;
    if (is_forced || (kind_ != StoreKind::quorum && excused)) continue;
    broken("P1",
           "the commands of " + name(*other) + " and " + name(run) + " run at once");
  }
  const auto held = leases(main_lock);
  for (const auto& client : clients_) {
    if (is_alone && !is_excused(run) && held.count(client->fence) > 0 &&
        forgot_ < granted_at_[client->fence]) {
      broken("P1",
             "the command of " + name(run) + " runs beside the lease of " + client->name);
    }
  }
  const auto lease = lease_of(run);
  if ((!lease || !has_also(run)) && !is_excused(run)) {
    broken("P9", "the command of " + name(run) + " starts without the lock");
  }
  if (lease) run.lease_seen_until = *lease;
  judge_order(run);
  judge_delay(run);
}

// Until when the lock of a run stays taken though its command has ended; 0 if it does
// not.
Time World::kept_until(const Run& run) const {
  const auto& its = run.options;
  const auto& guardian = *run.guardian;
  const auto granted = granted_at_.find(run.fence);
  if (run.command_began == 0 || guardian.is_alive || granted == granted_at_.end())
    return 0;
  // On etcd, that is a change of what the holder has written.
  const bool was_released =
      kind_ == StoreKind::etcd
          ? run.result && run.result->outcome == RunOutcome::ran && is_steady()
          : run.released > 0 && run.lease_seen_until > run.released;
  const auto held = was_released ? granted->second + nanos(its.min_hold) : 0;
  const bool was_stopped = !run.ended_by_itself && !guardian.is_dead;
  const auto delayed = was_stopped ? run.command_ended + nanos(its.lock_delay) : 0;
  return std::max(its.min_hold.count() > 0 ? held : 0,
                  its.lock_delay.count() > 0 ? delayed : 0);
}

// Whether the lock of another run had to stay taken: by --min-hold, or by --lock-delay
// once its command was stopped.
void World::judge_delay(const Run& run) {
  const auto granted = granted_at_.find(run.fence);
  if (kind_ == StoreKind::quorum || has_takers_ || granted == granted_at_.end()) return;
  for (const auto& other : runs_) {
    const auto until = kept_until(*other);
    if (other.get() == &run || may_share(run, *other)) continue;
    // A release need not outlive a crash.
    const auto knows_since =
        kind_ == StoreKind::postgres ? std::max(forgot_, crashed_) : forgot_;
    if (until == 0 || knows_since >= granted_at_[other->fence]) continue;
    // By the clock of the server.
    if (granted->second > granted_at_[other->fence] &&
        granted->second < until - (until - granted_at_[other->fence]) / 100) {
      broken("P4", name(run) + " is granted the lock while that of " + name(*other) +
                       " was to stay taken");
    }
  }
}

// Whether one that has waited for a second longer, and matters as much, is still there.
void World::judge_order(const Run& run) {
  if (kind_ == StoreKind::quorum || slots_ > 1 || has_readers_ || has_takers_) return;
  if (!is_steady()) return;
  for (const auto& other : runs_) {
    const auto& its = other->options;
    const bool waits = other->context && other->fence == 0 && its.wait;
    const bool may_leave = !waits || !its.also.empty() || its.dedupe || its.supersede ||
                           (*its.wait != milliseconds::max() &&
                            other->began + nanos(*its.wait) < kernel_.now + second);
    if (may_leave || other->began + second > run.began) continue;
    if (its.priority > run.options.priority) continue;
    broken("P6", name(run) + " gets the lock before " + name(*other));
  }
}

void World::command_ended(Run& run, bool by_itself) {
  const auto lease = lease_of(run);
  // It has to last for longer by all of the delay, but for what the clocks differ.
  const auto delay = nanos(run.options.lock_delay) * 99 / 100;
  const bool is_held = lease && *lease - delay > kernel_.now && has_also(run);
  run.command_ended = kernel_.now;
  run.ended_by_itself = by_itself;
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
  if (kind_ == StoreKind::quorum && sender != runs_.end()) {
    for (const auto& lock : {main_lock, std::string("a"), std::string("z")}) {
      if (lock == main_lock ? act != Peer::Act::ask : !has_also_) continue;
      for (const auto& [fence, ends] : servers_[server]->leases(lock)) {
        owners_.emplace(std::tuple(lock, server, fence), sender->get());
      }
    }
  }
  const auto held = leases(main_lock);
  for (const auto& [fence, ends] : held) {
    // A transaction is seen late, and has the time at which it began as its fence.
    const auto began = kind_ == StoreKind::postgres
                           ? servers_[0]->moment_of(static_cast<std::int64_t>(fence))
                           : kernel_.now;
    granted_at_.emplace(fence, std::min(began, kernel_.now));
  }
  look_at(held);
  note_whether_released(held, act);
  const auto before = granted_;
  if (!held.empty()) granted_ = std::max(granted_, held.rbegin()->first);
  if (sender == runs_.end()) return;
  auto& run = **sender;
  if (act != Peer::Act::look && held.count(run.fence) > 0) confirm(run);
  delay_reply(run);
  const auto is_of_another = [&](const auto& lease) { return lease.first != run.fence; };
  if (std::any_of(held.begin(), held.end(), is_of_another)) run.met_holder = kernel_.now;
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
  const bool fails_over = kind_ == StoreKind::sentinel || kind_ == StoreKind::cluster ||
                          kind_ == StoreKind::postgres;
  if (!is_new || !run.result || (fails_over && is_excused(run))) return;
  // Whatever was sent, no request comes after a withdrawal that got its reply.
  const bool was_withdrawn = run.fence == 0 || run.partly_released > by.last_request;
  if (run.released > by.last_request || (was_withdrawn && !run.result->may_still_get)) {
    broken("P8", "a late request of " + name(run) + ", which has ended, gets the lock");
  }
}

// A server that takes over may lack the lease of a run, which sets it up again, once.
// That is often the moment to remove it by hand: then it stays away.
void World::confirm(Run& run) {
  const auto failed_over = servers_[0]->failed_over;
  const auto before = std::max(run.confirmed, granted_at_[run.fence]);
  run.confirmed = kernel_.now;
  if (before > failed_over && before < run.removed) {
    broken("P3", name(run) + " sets up its lease again, which was removed by hand");
  }
  const bool is_restored = before < failed_over && run.guardian->is_alive;
  if (!is_restored || !kernel_.random.chance(0.5)) return;
  const auto& network = kernel_.network;
  const auto replied = kernel_.now + 20 * network.most + network.latest;
  kernel_.at(replied + kernel_.random.between(0, ttl_ / 4),
             [this, &run, at = kernel_.now] {
               auto& server = *servers_[0];
               const bool is_told = run.last_fault <= at && server.paused_until <= at;
               if (run.confirmed != at || !is_told || !server.remove(main_lock)) return;
               kernel_.trace("the lock is removed by hand");
               forgot_ = run.removed = kernel_.now;
               in_use_ = kernel_.now + 30 * second;
             });
}

void World::look_at(const Leases& held) {
  for (const auto& run : runs_) {
    if (!run->guardian->is_alive) continue;
    const auto lease = held.find(run->fence);
    if (lease != held.end()) {
      run->lease_seen_until = lease->second;
    } else if (run->lease_seen_until > kernel_.now && !is_excused(*run)) {
      broken("P4", name(*run) + " has lost a lease that was not over");
    }
  }
  for (const auto& client : clients_) {
    const auto lease = held.find(client->fence);
    if (lease != held.end()) {
      client->lease_seen_until = lease->second;
    } else if (client->lease_seen_until > kernel_.now && !client->may_end &&
               !has_takers_ && forgot_ < granted_at_[client->fence]) {
      broken("P4", client->name + " has lost a lease that was not over");
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
           return fault == Fault::hit || fault == Fault::guardian ||
                  fault == Fault::signal;
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
  const bool is_free = leases(main_lock).empty() &&
                       !(has_also_ && (!leases("a").empty() || !leases("z").empty()));
  if (!waits || !is_free) in_use_ = std::max(in_use_, now);
  for (const auto& run : runs_) {
    const auto granted = granted_at_.find(run->fence);
    if (run->command_began == 0 || granted == granted_at_.end()) continue;
    const auto& its = run->options;
    auto until = its.lock_delay.count() > 0 ? run->lease_seen_until : 0;
    if (its.min_hold.count() > 0) {
      until = std::max(until, granted->second + nanos(its.min_hold));
    }
    if (until > 0 && kind_ == StoreKind::etcd) {  // which a new leader lets last again
      until = std::max(until, faults_end_) + nanos(its.min_hold + its.lock_delay) + ttl_;
    }
    if (until <= in_use_) continue;
    in_use_ = std::min(now, until);
    was_released_ = false;
  }
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
  // A lease that is restored before another run was granted the lock was never free. On
  // PostgreSQL, that is done unasked after a failover.
  const bool fails_over =
      kind_ == StoreKind::postgres && forgot_ > granted_at_[run.fence];
  const bool may_be_restored =
      (run.options.reclaim || fails_over) &&
      (slots_ > 1 || has_readers_ || run.granted_before_release == run.fence);
  const bool can_know =
      is_excused(run) ? is_asked && !may_be_restored : !fails_over || !may_be_restored;
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
  const auto& its = run.options;
  const bool may_keep =
      its.min_hold.count() > 0 || its.lock_delay.count() > 0 || run.outer != nullptr;
  if (!result.ran || may_keep || !is_steady() || run.last_fault > 0) return;
  if (lease_of(run) || (!its.also.empty() && has_also(run))) {
    broken("P6", name(run) + " has ended, and keeps a lock");
  }
}

// Whatever other processes, servers and networks do, a wait ends in time, and at once if
// a signal or a run around this one ends it.
void World::judge_wait(const Run& run) {
  const auto outcome = run.result->outcome;
  const bool is_told = outcome == RunOutcome::interrupted;
  const bool has_waited =
      is_told || outcome == RunOutcome::busy || outcome == RunOutcome::unavailable ||
      outcome == RunOutcome::deduplicated || outcome == RunOutcome::superseded;
  if (run.fence != 0 || !has_waited) return;
  const auto& its = run.options;
  const bool is_undisturbed = is_steady() && run.last_fault == 0;
  const bool is_within = is_undisturbed && run.outer != nullptr && !its.shared &&
                         its.slots == 1 && run.outer->guardian->is_alive &&
                         lease_of(*run.outer);
  const auto wait = is_within ? milliseconds(0) : its.wait.value_or(milliseconds(0));
  if (!is_told && wait == milliseconds::max()) return;
  const auto until = is_told ? run.signalled : run.began + nanos(wait);
  const auto budget = store_timeout(run.invocation->common, its.ttl);
  // A server that is down refuses at once: only the last requests are patient then.
  const bool is_one = kind_ == StoreKind::redis || kind_ == StoreKind::postgres;
  const bool is_refused = is_one && !servers_[0]->is_up && run.last_fault == 0 &&
                          !has_late_packets_ && crashed_ + nanos(budget) < until;
  const auto most =
      is_undisturbed ? 30 * kernel_.network.most + 50 * millisecond
      : is_refused   ? nanos(budget) / 2 + 10 * kernel_.network.most + 50 * millisecond
      : is_told      ? (its.also.empty() ? 250 : 350) * millisecond
                     : nanos(its.also.empty() ? budget : 2 * budget) + 250 * millisecond;
  if (run.ended > std::max(until, run.process.stopped_until) + most) {
    broken("P7", name(run) + " waits for longer than it was asked to");
  }
}

}  // namespace dlock::simulation
