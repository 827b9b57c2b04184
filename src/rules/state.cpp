#include "rules/state.hpp"

#include <algorithm>

#include "lock/history.hpp"
#include "rules/look.hpp"

namespace dlock::rules {

Session session_of(const Token& token) {
  Session session = 0;
  for (std::size_t i = 0; i < sizeof session; ++i) {
    session = session << 8u | token.bytes[i];
  }
  return session | 1u;
}

GrantId last_grant(const State& state) {
  return {state.last_claim, state.restored ? state.restored->granted : state.last_fence};
}

std::vector<Holder>::iterator holder_of(State& state, const Token& token) {
  return std::ranges::find_if(
      state.holders, [&](const Holder& h) { return !h.ended && h.party.token == token; });
}

std::optional<Clock::time_point> end_of(const Holder& holder) {
  return holder.ends_at ? holder.ends_at : holder.lives_until;
}

std::vector<Waiter>::iterator waiter_of(State& state, const Token& token) {
  return std::ranges::find_if(state.waiters,
                              [&](const Waiter& w) { return w.party.token == token; });
}

std::vector<AnsweredWaiter>::iterator answered_of(State& state, const Token& token) {
  return std::ranges::find_if(state.answered, [&](const AnsweredWaiter& d) {
    return d.waiter.party.token == token;
  });
}

void record_past_run(State& state, const RunInfo& run) {
  add_to_history(state.runs, run);
}

RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now) {
  auto run = vanished_run(holder);
  run.ended = now.wall;
  set_end(run, end);
  return run;
}

RunInfo forced_run(const Holder& holder, const Taker& taker, Moment now) {
  auto run = vanished_run(holder);
  run.ended = now.wall;
  run.duration = std::chrono::duration_cast<milliseconds>(
      std::max(now.boot - holder.granted_at, nanoseconds(0)));
  run.outcome = lost_run;
  run.reason = taken_reason(taker);
  return run;
}

RunInfo vanished_run(const Holder& holder) {
  RunInfo run;
  run.fence = holder.fence;
  run.started = holder.since;
  run.Owner::operator=(holder.party);
  run.Description::operator=(holder);
  run.outcome = "vanished";
  run.period = holder.period;
  run.counts = holder.counts;
  return run;
}

RunInfo run_of_gone(const Holder& holder) {
  return holder.known_end ? *holder.known_end : vanished_run(holder);
}

bool may_have_run(const Holder& holder) {
  return holder.command != 0 || holder.lives_until;
}

bool is_by_hand(const Holder& holder) {
  return holder.party.session == 0 && !holder.ended && !holder.party.foreign;
}

RunInfo lease_by_hand(const Holder& holder, Moment now) {
  const auto ended_at = std::min(holder.ends_at.value_or(now.boot), now.boot);
  auto run = vanished_run(holder);
  run.ended = now.wall - std::chrono::duration_cast<WallTime>(now.boot - ended_at);
  run.duration = std::chrono::duration_cast<milliseconds>(
      std::max(ended_at - holder.granted_at, nanoseconds(0)));
  run.outcome = by_hand;
  return run;
}

void record_run(State& state, const RunInfo& run) {
  state.last_run = run;
  if (run.counts) state.past.note(run);
}

std::optional<RunInfo> counting_run(const State& state, const Dedupe& dedupe, Queue queue,
                                    Moment now) {
  const bool waits = dedupe.joins || (dedupe.retry_failed && queue == Queue::join);
  for (const auto& holder : state.holders) {
    if (waits || !holder.counts || holder.ended || holder.broken) continue;
    auto run = vanished_run(holder);
    run.outcome = "running";
    return run;
  }
  const auto* past = state.past.counting_for(dedupe, now.wall);
  return past == nullptr ? std::nullopt : std::optional(*past);
}

bool has_come_to_nothing(const State& state, const RunInfo& run) {
  if (run.outcome != "running") return false;
  for (const auto& holder : state.holders) {
    if (holder.fence == run.fence && !holder.ended) return holder.broken;
  }
  const auto& last = state.past.last;
  return !last || !last->ended || last->fence < run.fence;
}

std::vector<RunInfo> runs_of_holders(const State& state, Moment now,
                                     const Liveness& liveness) {
  std::vector<RunInfo> runs;
  for (const auto& holder : state.holders) {
    if (!is_over(holder, now, liveness)) {
      if (auto run = run_of(info_of(holder, now))) runs.push_back(std::move(*run));
    } else if (may_have_run(holder)) {
      runs.push_back(run_of_gone(holder));
    } else if (is_by_hand(holder)) {
      runs.push_back(lease_by_hand(holder, now));
    }
  }
  return runs;
}

bool is_over(const Holder& holder, Moment now, const Liveness& liveness) {
  if (holder.ends_at) return *holder.ends_at <= now.boot;
  return !liveness.is_alive(holder);
}

}  // namespace dlock::rules
