#include "store/local/rules.hpp"

#include <algorithm>

#include "lock/history.hpp"

namespace dlock::local {
namespace {

// How often the first two in line look again though nothing woke them. Everything
// they wait for wakes them; this is for what no kernel tells (a lost datagram).
constexpr milliseconds safety_net{1000};

// The same for those behind, who rely on the ones in front being there: one that has
// many in front looks seldom, so that all looks together stay few.
constexpr milliseconds slow_safety_net{20'000};
milliseconds safety_net_at(std::size_t place) {
  if (place <= 2) return safety_net;
  return std::min(safety_net * static_cast<int>(std::min<std::size_t>(place, 20) + 1),
                  slow_safety_net);
}

// Between two who look whether a promise in front of them has lapsed.
constexpr milliseconds look_after_each_other{10};

// What counts against a claim: leases, and promises that have not lapsed.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;

  void add(Mode mode) { ++(mode == Mode::shared ? shared : exclusive); }
  bool admits(Mode mode, unsigned slots) const {
    return mode == Mode::shared ? exclusive == 0 : shared == 0 && exclusive < slots;
  }
};

// A promise further off than it can be was made on another clock (another time
// namespace), and is no promise.
bool is_promised(const Waiter& waiter, Moment now) {
  return waiter.promised_until && *waiter.promised_until > now.boot &&
         *waiter.promised_until <= now.boot + promise_holds;
}

Occupancy occupancy_of(const State& state, Moment now) {
  Occupancy occupancy;
  for (const auto& holder : state.holders) occupancy.add(holder.mode);
  for (const auto& waiter : state.waiters) {
    if (is_promised(waiter, now)) occupancy.add(waiter.mode);
  }
  return occupancy;
}

auto waiter_of(State& state, const Token& token) {
  return std::find_if(state.waiters.begin(), state.waiters.end(),
                      [&](const Waiter& w) { return w.party.token == token; });
}

// Not one whose run has ended, which has no token, though somebody may come with that.
auto holder_of(State& state, const Token& token) {
  return std::find_if(state.holders.begin(), state.holders.end(), [&](const Holder& h) {
    return !h.ended && h.party.token == token;
  });
}

auto dismissed_of(State& state, const Token& token) {
  return std::find_if(state.dismissed.begin(), state.dismissed.end(),
                      [&](const Dismissed& d) { return d.waiter.party.token == token; });
}

bool is_over(const Holder& holder, Moment now, const Lives& lives) {
  if (holder.ends_at) return *holder.ends_at <= now.boot;
  return !lives.lives(holder);
}

// A run that ended without anybody to say how.
RunInfo vanished_run(const Holder& holder) {
  RunInfo run;
  run.fence = holder.fence;
  run.started = holder.since;
  run.host = holder.party.host;
  run.outcome = "vanished";
  run.counts = holder.counts;
  return run;
}

void note_run(State& state, const RunInfo& run) {
  state.last_run = run;
  if (run.counts) state.past.note(run);
}

// But for `self`, who is about to say how it has ended.
void bury_dead_holders(State& state, Moment now, const Lives& lives,
                       Consequences& consequences, const Token* self = nullptr) {
  std::erase_if(state.holders, [&](const Holder& holder) {
    if (self != nullptr && holder.party.token == *self) return false;
    if (!is_over(holder, now, lives)) return false;
    // It may have died before it removed the socket that it waited with.
    if (holder.party.session != 0) consequences.buried.push_back(holder.party.session);
    if (holder.command != 0) {
      note_run(state, vanished_run(holder));
      consequences.vanished.push_back(*state.last_run);
    }
    return true;
  });
}

// Those that died before they could ask why they were woken.
void bury_dead_dismissed(State& state, const Lives& lives, Consequences& consequences) {
  std::erase_if(state.dismissed, [&](const Dismissed& dismissed) {
    if (lives.lives(dismissed.waiter)) return false;
    consequences.buried.push_back(dismissed.waiter.party.session);
    return true;
  });
}

// The run that counts as the one of a claim, if there is one. With Queue::join the claim
// can wait for how one ends.
std::optional<RunInfo> counting_run(const State& state, const Dedupe& dedupe, Queue queue,
                                    Moment now) {
  const bool waits = dedupe.joins || (dedupe.retry_failed && queue == Queue::join);
  for (const auto& holder : state.holders) {
    if (waits || !holder.counts || holder.ended) continue;
    auto run = vanished_run(holder);
    run.outcome = "running";
    return run;
  }
  const auto* past = state.past.counting_for(dedupe, now.wall);
  return past == nullptr ? std::nullopt : std::optional(*past);
}

// Takes those out of the queue that wait for what another run has done or does.
void dismiss(State& state, Moment now, Consequences& consequences) {
  std::erase_if(state.waiters, [&](const Waiter& waiter) {
    if (!waiter.dedupe) return false;
    const auto run = counting_run(state, *waiter.dedupe, Queue::join, now);
    if (!run) return false;
    state.dismissed.push_back({waiter, *run});
    consequences.wake.push_back(waiter.party.session);
    return true;
  });
}

// Takes those out of the queue that have waited to join the run that has ended.
void dismiss_joined(State& state, const RunInfo& run, Consequences& consequences) {
  std::erase_if(state.waiters, [&](const Waiter& waiter) {
    if (!waiter.dedupe || !waiter.dedupe->joins) return false;
    state.dismissed.push_back({waiter, run});
    consequences.wake.push_back(waiter.party.session);
    return true;
  });
}

// Takes promises from the dead and from those that let them lapse. Whether there was one
// of the latter.
bool end_promises(State& state, Moment now, const Lives& lives,
                  Consequences& consequences) {
  bool lapsed = false;
  for (auto waiter = state.waiters.begin(); waiter != state.waiters.end();) {
    const bool had_its_turn = waiter->promised_until || waiter->passed_over;
    if (had_its_turn && !lives.lives(*waiter)) {
      consequences.buried.push_back(waiter->party.session);
      waiter = state.waiters.erase(waiter);
      continue;
    }
    if (waiter->promised_until && !is_promised(*waiter, now)) {
      waiter->promised_until.reset();
      waiter->passed_over = true;
      lapsed = true;
    }
    ++waiter;
  }
  return lapsed;
}

// Promises what is free to the first waiters that fit, in order, and wakes them. Stops
// at the first that lives and does not fit: nobody overtakes. Those that are stopped are
// passed over where others stand behind them (to ask costs a look at /proc, some 30 µs);
// they are woken too, so that they ask for their places when they go on.
void promise_to_the_next(State& state, Moment now, const Lives& lives,
                         Consequences& consequences) {
  const bool lapsed = end_promises(state, now, lives, consequences);
  const auto holds = lapsed ? promise_holds_after_lapse : promise_holds;
  auto occupancy = occupancy_of(state, now);
  for (auto waiter = state.waiters.begin(); waiter != state.waiters.end();) {
    if (waiter->promised_until || waiter->passed_over) {
      ++waiter;
    } else if (!lives.lives(*waiter)) {
      consequences.buried.push_back(waiter->party.session);
      waiter = state.waiters.erase(waiter);
    } else if (!occupancy.admits(waiter->mode, state.slots)) {
      return;
    } else {
      const bool is_last = std::next(waiter) == state.waiters.end();
      if (!is_last && lives.is_stopped(*waiter)) {
        waiter->passed_over = true;
      } else {
        waiter->promised_until = now.boot + holds;
        occupancy.add(waiter->mode);
      }
      consequences.wake.push_back(waiter->party.session);
      ++waiter;
    }
  }
}

// A waiter wakes when the one right before it dies. It then has to find the next
// living one to watch, or it would wake again at once.
void bury_dead_predecessors(State& state, std::vector<Waiter>::iterator own,
                            const Lives& lives, Consequences& consequences) {
  auto first_dead = own;
  while (first_dead != state.waiters.begin() && !lives.lives(*(first_dead - 1))) {
    --first_dead;
    consequences.buried.push_back(first_dead->party.session);
  }
  state.waiters.erase(first_dead, own);
}

std::uint32_t free_slot(const State& state) {
  std::uint32_t slot = 0;
  while (std::any_of(state.holders.begin(), state.holders.end(),
                     [&](const Holder& h) { return h.slot == slot; })) {
    ++slot;
  }
  return slot;
}

Grant grant_of(const Holder& holder, Moment now) {
  return {holder.fence, holder.slot, now.boot,
          holder.ends_at.value_or(Clock::time_point::max())};
}

Grant grant_to(State& state, const Ask& ask, Moment now) {
  state.last_fence.number =
      std::max(state.last_fence.number + 1,
               static_cast<std::uint64_t>(std::max<std::int64_t>(now.wall.count(), 0)));
  state.used = now.wall;
  Holder holder;
  holder.party = ask.party;
  holder.mode = ask.claim.mode;
  holder.slot = ask.claim.mode == Mode::shared ? 0 : free_slot(state);
  holder.fence = state.last_fence;
  holder.since = now.wall;
  holder.granted_at = now.boot;
  holder.label = ask.claim.label;
  holder.argv = ask.claim.command;
  holder.counts =
      ask.claim.attached && ask.claim.mode == Mode::exclusive && ask.claim.slots == 1;
  holder.min_hold = ask.claim.min_hold;
  if (!ask.claim.attached) {
    // Who asked goes its way, and only the clock ends the lease.
    holder.party.session = 0;
    if (ask.claim.on_behalf_of != 0) holder.party.pid = ask.claim.on_behalf_of;
    holder.ends_at = later(now.boot, ask.claim.ttl);
  }
  state.holders.push_back(std::move(holder));
  return grant_of(state.holders.back(), now);
}

// Has the lock held on for a run that ended too soon. It is nobody's any more: what was
// the holder's claim would be a new one.
void keep(Holder& holder) {
  holder.ended = true;
  holder.ends_at = later(holder.granted_at, holder.min_hold);
  holder.party.token = {};
  holder.party.session = 0;
  holder.command = 0;
}

// What the one in front of the queue has to watch is not what it knew of.
void wake_the_head(const State& state, Consequences& consequences) {
  for (const auto& waiter : state.waiters) {
    if (waiter.promised_until || waiter.passed_over) continue;
    consequences.wake.push_back(waiter.party.session);
    return;
  }
}

// With several holders, the one now in front of the queue has more of them to watch
// than it knew of. With one, it watches that one already: it stood right behind it.
void tell_of_grant(State& state, Moment now, Consequences& consequences) {
  const auto& holder = state.holders.back();
  if (state.slots != 1 || holder.mode != Mode::exclusive) {
    wake_the_head(state, consequences);
  }
  if (holder.counts) dismiss(state, now, consequences);
}

bool is_above(const Claim& claim, const Holder& holder) {
  return !holder.ended && std::find(claim.held_above.begin(), claim.held_above.end(),
                                    holder.fence) != claim.held_above.end();
}

// The grant of an outer run that this claim would wait for without end.
std::optional<Fence> blocked_from_above(const State& state, const Claim& claim) {
  std::optional<Fence> above;
  bool others = std::any_of(state.waiters.begin(), state.waiters.end(),
                            [](const Waiter& w) { return w.promised_until.has_value(); });
  for (const auto& holder : state.holders) {
    if (is_above(claim, holder)) {
      above = holder.fence;
    } else {
      others = true;
    }
  }
  // Somebody else's slot can become free.
  const bool can_wait = claim.mode == Mode::exclusive && claim.slots > 1 && others;
  return can_wait ? std::nullopt : above;
}

// A reader below a reader enters even if a writer waits: that writer waits for the
// outer run, which waits for this one.
bool joins_outer_reader(const State& state, const Claim& claim) {
  return claim.mode == Mode::shared &&
         std::any_of(state.holders.begin(), state.holders.end(),
                     [&](const Holder& holder) {
                       return holder.mode == Mode::shared && is_above(claim, holder);
                     });
}

Busy busy(const State& state, std::size_t place, Moment now) {
  Busy answer;
  for (const auto& holder : state.holders) answer.holders.push_back(info_of(holder, now));
  answer.place = place;
  answer.queued = state.waiters.size();
  return answer;
}

milliseconds whole_milliseconds(nanoseconds span) {
  return std::chrono::duration_cast<milliseconds>(std::max(span, nanoseconds(0)));
}

}  // namespace

Answer ask(State& state, const Ask& ask, Moment now, const Lives& lives,
           Consequences& consequences) {
  const Claim& claim = ask.claim;
  bury_dead_holders(state, now, lives, consequences);
  bury_dead_dismissed(state, lives, consequences);

  if (const auto own = holder_of(state, claim.token); own != state.holders.end()) {
    if (!claim.attached) own->ends_at = later(now.boot, claim.ttl);
    return grant_of(*own, now);
  }
  if (auto own = waiter_of(state, claim.token); own != state.waiters.end()) {
    // One that comes late has its place again, as long as nobody else was promised it.
    if (!is_promised(*own, now)) own->promised_until.reset();
    own->passed_over = false;
    bury_dead_predecessors(state, own, lives, consequences);
  }
  promise_to_the_next(state, now, lives, consequences);
  if (const auto own = dismissed_of(state, claim.token); own != state.dismissed.end()) {
    return Deduplicated{own->by};
  }

  const auto own = waiter_of(state, claim.token);
  const bool queued = own != state.waiters.end();
  if (state.holders.empty() && state.waiters.size() == (queued ? 1u : 0u)) {
    state.slots = claim.slots;  // nobody else is there to disagree
  } else if (state.slots != claim.slots) {
    return SlotsDiffer{state.slots};
  }

  if (claim.dedupe) {
    if (const auto above = blocked_from_above(state, claim)) return HeldAbove{*above};
    if (auto run = counting_run(state, *claim.dedupe, ask.queue, now)) {
      if (queued) {
        // It may have been promised the lock just now.
        std::erase(consequences.wake, ask.party.session);
        state.waiters.erase(own);
        promise_to_the_next(state, now, lives, consequences);
      }
      return Deduplicated{std::move(*run)};
    }
  }

  if (queued) {
    if (!own->promised_until) {
      const auto place = static_cast<std::size_t>(own - state.waiters.begin()) + 1;
      return busy(state, place, now);
    }
    state.waiters.erase(own);
    const auto grant = grant_to(state, ask, now);
    // This process needs no waking: it is the one that asks.
    std::erase(consequences.wake, ask.party.session);
    tell_of_grant(state, now, consequences);
    return grant;
  }

  // Those that were promised it already count as if they held it.
  const bool nobody_waits = std::all_of(
      state.waiters.begin(), state.waiters.end(),
      [](const Waiter& waiter) { return waiter.passed_over || waiter.promised_until; });
  if ((nobody_waits || joins_outer_reader(state, claim)) &&
      occupancy_of(state, now).admits(claim.mode, state.slots)) {
    const auto grant = grant_to(state, ask, now);
    tell_of_grant(state, now, consequences);
    return grant;
  }
  if (const auto above = blocked_from_above(state, claim)) return HeldAbove{*above};
  if (ask.queue == Queue::stay_out) return busy(state, 0, now);
  Waiter waiter;
  waiter.party = ask.party;
  waiter.mode = claim.mode;
  waiter.since = now.wall;
  waiter.queued_at = now.boot;
  waiter.dedupe = claim.dedupe;
  state.waiters.push_back(std::move(waiter));
  return busy(state, state.waiters.size(), now);
}

RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now) {
  auto run = vanished_run(holder);
  run.ended = now.wall;
  run.duration = end.duration;
  run.exit_code = end.exit_code;
  run.signal = end.signal;
  run.outcome = end.outcome;
  if (end.lost) run.reason = loss_name(*end.lost);
  return run;
}

Release release(State& state, const Token& token, const std::optional<RunEnd>& end,
                Moment now, const Lives& lives, Consequences& consequences) {
  auto outcome = Release::not_ours;
  bool kept = false;
  // First, so that a run that vanished does not become the last one.
  bury_dead_holders(state, now, lives, consequences, end ? &token : nullptr);
  bury_dead_dismissed(state, lives, consequences);
  if (const auto own = holder_of(state, token); own != state.holders.end()) {
    outcome = Release::released;
    if (end) {
      const auto run = ended_run(*own, *end, now);
      note_run(state, run);
      if (end->is_shared && run.counts) dismiss_joined(state, run, consequences);
    }
    state.used = now.wall;
    kept = end && !own->broken && later(own->granted_at, own->min_hold) > now.boot;
    if (kept) {
      keep(*own);
    } else {
      state.holders.erase(own);
    }
    dismiss(state, now, consequences);
  }
  if (const auto own = waiter_of(state, token); own != state.waiters.end()) {
    state.waiters.erase(own);
  }
  if (const auto own = dismissed_of(state, token); own != state.dismissed.end()) {
    state.dismissed.erase(own);
  }
  promise_to_the_next(state, now, lives, consequences);
  if (kept) wake_the_head(state, consequences);
  return outcome;
}

void note_lost(State& state, const Holder& holder, const RunEnd& end, Moment now) {
  note_run(state, ended_run(holder, end, now));
}

Renewal renew(State& state, const Token& token, milliseconds ttl, Moment now,
              const Lives& lives, Consequences& consequences) {
  const auto own = holder_of(state, token);
  if (own == state.holders.end() || is_over(*own, now, lives)) {
    const bool others = std::any_of(
        state.holders.begin(), state.holders.end(), [&](const Holder& holder) {
          return holder.party.token != token && !is_over(holder, now, lives);
        });
    return others && state.slots == 1 ? Renewal::taken_over : Renewal::gone;
  }
  if (!own->ends_at) return Renewal::confirmed;
  const auto ends_at = later(now.boot, ttl);
  if (ends_at < *own->ends_at) wake_the_head(state, consequences);
  own->ends_at = ends_at;
  return Renewal::confirmed;
}

std::vector<Holder> break_leases(State& state, const std::vector<Fence>& fences,
                                 Moment now, const Lives& lives,
                                 Consequences& consequences) {
  bury_dead_holders(state, now, lives, consequences);
  bury_dead_dismissed(state, lives, consequences);
  std::vector<Holder> found;
  for (auto& holder : state.holders) {
    if (std::find(fences.begin(), fences.end(), holder.fence) == fences.end()) continue;
    found.push_back(holder);
    holder.broken = true;
  }
  // What ends by the clock has nobody who could be told.
  std::erase_if(state.holders, [](const Holder& h) { return h.broken && h.ends_at; });
  promise_to_the_next(state, now, lives, consequences);
  return found;
}

void tidy(State& state, Moment now, const Lives& lives, Consequences& consequences) {
  bury_dead_holders(state, now, lives, consequences);
  bury_dead_dismissed(state, lives, consequences);
  promise_to_the_next(state, now, lives, consequences);
}

bool is_untidy(const State& state, Moment now, const Lives& lives) {
  return std::any_of(state.holders.begin(), state.holders.end(),
                     [&](const Holder& holder) { return is_over(holder, now, lives); });
}

std::optional<Loss> loss_of(const State& state, const Token& token) {
  bool is_taken = false;
  for (const auto& holder : state.holders) {
    if (!holder.ended && holder.party.token == token) {
      return holder.broken ? std::optional(Loss::broken) : std::nullopt;
    }
    is_taken = is_taken || (holder.mode == Mode::exclusive && state.slots == 1);
  }
  return is_taken ? Loss::taken_over : Loss::gone;
}

void note_command(State& state, const Token& token, const CommandProcess& command) {
  const auto own = holder_of(state, token);
  if (own == state.holders.end()) return;
  own->command = command.pid;
  own->command_after = command.not_before.time_since_epoch().count();
  own->command_before = command.not_after.time_since_epoch().count();
}

Watch watch_for(const State& state, const Token& token, Moment now) {
  Watch watch;
  watch.ask_again = now.boot;
  std::size_t place = 1;  // of those that are not passed over: they are in nobody's way
  const Waiter* before = nullptr;
  // When promises in front lapse. Who is right behind asks first, the others soon after
  // it, for it may be stopped too.
  auto lapses = Clock::time_point::max();
  for (const auto& waiter : state.waiters) {
    if (waiter.party.token == token) {
      watch.ask_again = std::min(now.boot + safety_net_at(place), lapses);
      if (before != nullptr) watch.predecessor = &before->party;
      break;
    }
    if (waiter.passed_over) continue;
    if (lapses != Clock::time_point::max()) lapses += look_after_each_other;
    if (is_promised(waiter, now)) lapses = std::min(lapses, *waiter.promised_until);
    before = &waiter;
    ++place;
  }
  if (watch.predecessor == nullptr) {
    for (const auto& holder : state.holders) {
      watch.holders.push_back(&holder);
      if (holder.ends_at) watch.ask_again = std::min(watch.ask_again, *holder.ends_at);
    }
  }
  return watch;
}

HolderInfo info_of(const Holder& holder, Moment now) {
  HolderInfo info;
  info.fence = holder.fence;
  info.slot = holder.slot;
  info.host = holder.party.host;
  info.pid = holder.party.pid;
  info.user = std::to_string(holder.party.uid);
  info.command = holder.argv;
  info.label = holder.label;
  info.since = holder.since;
  info.held = whole_milliseconds(now.boot - holder.granted_at);
  info.attached = holder.party.session != 0;
  info.kept = holder.ended;
  info.broken = holder.broken;
  if (holder.ends_at) info.expires_in = whole_milliseconds(*holder.ends_at - now.boot);
  return info;
}

LockInfo info_of(const State& state, const LockName& lock, Moment now,
                 const Lives& lives) {
  LockInfo info;
  info.lock = lock;
  info.last_run = state.last_run;
  Occupancy occupancy;
  for (const auto& holder : state.holders) {
    if (is_over(holder, now, lives)) {
      if (holder.command != 0) info.last_run = vanished_run(holder);
      continue;
    }
    occupancy.add(holder.mode);
    info.mode = holder.mode;
    info.holders.push_back(info_of(holder, now));
  }
  for (const auto& waiter : state.waiters) {
    if (!lives.lives(waiter)) continue;
    WaiterInfo shown;
    shown.host = waiter.party.host;
    shown.pid = waiter.party.pid;
    shown.user = std::to_string(waiter.party.uid);
    shown.since = waiter.since;
    shown.waiting = whole_milliseconds(now.boot - waiter.queued_at);
    info.waiters.push_back(std::move(shown));
  }
  const bool in_use = !info.holders.empty() || !info.waiters.empty();
  info.slots = in_use ? state.slots : 1;
  const auto taken = occupancy.shared > 0 ? info.slots : occupancy.exclusive;
  info.free = info.slots - std::min(taken, info.slots);
  return info;
}

std::vector<RunInfo> runs_of_holders(const State& state, Moment now, const Lives& lives) {
  std::vector<RunInfo> runs;
  for (const auto& holder : state.holders) {
    if (!is_over(holder, now, lives)) {
      if (auto run = run_of(info_of(holder, now))) runs.push_back(std::move(*run));
    } else if (holder.command != 0) {
      runs.push_back(vanished_run(holder));
    }
  }
  return runs;
}

bool is_out_of_use(const State& state, Moment now, const Lives& lives) {
  if (now.wall - state.used <= WallTime(runs_kept_for)) return false;
  const bool held =
      std::any_of(state.holders.begin(), state.holders.end(),
                  [&](const Holder& holder) { return !is_over(holder, now, lives); });
  const bool waited_for =
      std::any_of(state.waiters.begin(), state.waiters.end(),
                  [&](const Waiter& waiter) { return lives.lives(waiter); });
  return !held && !waited_for;
}

}  // namespace dlock::local
