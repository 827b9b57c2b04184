#include "tests/contract/rules_side.hpp"

#include <algorithm>
#include <utility>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/keeping.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"
#include "rules/state.hpp"

namespace dlock::against {
namespace {

using rules::Holder;
using rules::State;
using rules::Waiter;

const LockName lock_name{"dlock", "job"};

std::string text(std::uint64_t value) { return std::to_string(value); }

// A request as a process makes it.
rules::Party party_of(const Contender& contender) {
  auto party = rules::party_of(contender.number);
  party.host = host_of(contender.number);
  return party;
}

const Waiter* find_waiter(const State& state, const Token& token) {
  for (const auto& waiter : state.waiters) {
    if (waiter.party.token == token) return &waiter;
  }
  return nullptr;
}

const rules::AnsweredWaiter* find_answered(const State& state, const Token& token) {
  for (const auto& answered : state.answered) {
    if (answered.waiter.party.token == token) return &answered;
  }
  return nullptr;
}

}  // namespace

bool RulesSide::is_dead(const Token& token, WallTime now) const {
  const rules::ClockLiveness liveness({Clock::time_point(now), now});
  if (const auto* waiter = find_waiter(state_, token)) return !liveness.is_alive(*waiter);
  const auto* answered = find_answered(state_, token);
  return answered == nullptr || !liveness.is_alive(answered->waiter);
}

Seen RulesSide::take(const Step& step, std::vector<Contender>& contenders,
                     const std::set<Session>& handed) {
  auto& contender = contenders[step.who];
  now_ = {Clock::time_point(step.now), step.now};
  liveness_ = rules::ClockLiveness(now_);
  then_ = {};
  cause_ = {};
  due_.clear();
  for (const auto& waiter : state_.waiters) {
    if (!liveness_.is_alive(waiter)) dead_.insert(waiter.party.pid);
  }

  Seen seen;
  if (step.act == Act::save || step.act == Act::go_back) {
    (step.act == Act::save ? saved_ : state_) = step.act == Act::save ? state_ : saved_;
    seen.state = shown_state();
    return seen;
  }
  const bool is_of_lost = step.act == Act::reclaim || step.act == Act::release;
  if (is_of_lost && contender.grant) forget_since(contender);
  auto before = state_;
  seen.answer = act(step, contender);
  if (bug_) bug_({step, before, state_, seen.answer, then_.wake});
  even_out(before, contender);
  add_events(before, seen);
  add_loss(before, step, contender, seen);
  seen.told.insert(then_.wake.begin(), then_.wake.end());
  for (auto& other : contenders) {
    if (handed.count(other.number) == 0) continue;
    before = state_;
    cause_ = {};
    ask(other.claim, Queue::join, other);
    add_events(before, seen);
  }
  seen.state = shown_state();
  return seen;
}

std::string RulesSide::act(const Step& step, Contender& contender) {
  switch (step.act) {
    case Act::ask: return ask(contender.claim, step.queue, contender);
    case Act::release: return release(step, contender);
    case Act::renew:
    case Act::reclaim: return renew(step, contender);
    case Act::take_away: return take_away(step);
    case Act::remove_expired: rules::tidy(here()); return "";
    case Act::inspect: return text_of(rules::info_of(state_, lock_name, now_, liveness_));
    case Act::save:
    case Act::go_back:
    case Act::history: break;
  }
  auto runs = rules::runs_of_holders(state_, now_, liveness_);
  runs.insert(runs.end(), state_.runs.begin(), state_.runs.end());
  return text_of(as_history(std::move(runs), now_.wall));
}

std::string RulesSide::ask(const Claim& claim, Queue queue, Contender& contender) {
  const auto party = party_of(contender);
  const auto answer = rules::ask(here(), {claim, party, queue, rules::place_lasts});
  for (const auto& holder : then_.broken) cause_.broken.push_back(holder.fence);
  cause_.taken_by = rules::replacing(party);
  if (std::holds_alternative<Grant>(answer)) {
    const auto former =
        std::exchange(contender.grant, *rules::holder_of(state_, claim.token));
    contender.waits = false;
    const bool is_new = !former || former->fence != contender.grant->fence;
    return text_of_answer(answer, claim.token) + " after " +
           (is_new ? text_of(contender.grant->after) : "");
  }
  return text_of_answer(answer, claim.token);
}

// As in a store, a loss is reported first, and then nothing else is done.
std::string RulesSide::release(const Step& step, Contender& contender) {
  const auto& claim = contender.claim;
  cause_ = {claim.token, step.end, {}, {}};
  const auto* granted = contender.grant ? &*contender.grant : nullptr;
  const auto outcome = rules::release_lease(here(), claim, granted, step.end);
  const bool was_lost = step.end && step.end->lost;
  if (outcome == Release::not_ours && claim.attached && !was_lost) cause_ = {};
  if (outcome == Release::broken) return "broken" + text_of_taker(claim.token, granted);
  if (loss_found_by(outcome)) return "lost";
  return outcome == Release::not_ours ? "not ours" : "released";
}

// Where the state is an older one, the scripts know of a grant only its fence.
void RulesSide::forget_since(Contender& contender) const {
  auto& grant = *contender.grant;
  const auto is_it = [&](const auto& one) { return one.fence == grant.fence; };
  const auto is_in = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), is_it);
  };
  if (is_in(state_.holders) || is_in(state_.runs)) return;
  const WallTime fence(static_cast<std::int64_t>(grant.fence.number));
  grant.since = std::min(fence, now_.wall);
  grant.granted_at = Clock::time_point(grant.since);
}

std::string RulesSide::renew(const Step& step, const Contender& contender) {
  auto claim = contender.claim;
  claim.reclaim = step.act == Act::reclaim;
  if (!claim.attached) {
    auto renewing = claim;
    if (claim.keeps_ttl) renewing.ttl = other_ttl;
    if (step.shortens) renewing.ttl = shortened(claim.ttl);
    const auto ttl = rules::ttl_to_set(state_, renewing);
    const auto renewal = rules::renew(here(), claim.token, ttl);
    return renewal == Renewal::confirmed ? "renewed" : "lost";
  }
  const auto renewal = rules::renew_lease(here(), claim, *contender.grant);
  if (renewal == Renewal::broken) {
    return "broken" + text_of_taker(claim.token, &*contender.grant);
  }
  if (renewal == Renewal::reclaimed) return "reclaimed";
  return renewal == Renewal::confirmed ? "renewed" : "lost";
}

std::string RulesSide::take_away(const Step& step) {
  const Taker breaker{"0", "web9", false, step.by_force};
  cause_.taken_by = breaker;
  std::string answer;
  for (const auto& holder : rules::break_leases(here(), step.fences, breaker)) {
    cause_.broken.push_back(holder.fence);
    answer += "\n  " + text_of_holder(rules::info_of(holder, now_));
  }
  return answer;
}

// Who took the lock from this holder, if anyone did.
std::string RulesSide::text_of_taker(const Token& token, const Holder* loser) const {
  for (const auto& holder : state_.holders) {
    if (holder.ended || holder.party.token != token || !holder.taken_by) continue;
    return text_of(holder.taken_by);
  }
  return loser == nullptr ? "" : text_of(rules::forced_by(state_, loser->fence));
}

std::size_t RulesSide::dead_before(std::size_t place) const {
  const auto first = state_.waiters.begin();
  return static_cast<std::size_t>(
      std::count_if(first, first + static_cast<std::ptrdiff_t>(place),
                    [&](const Waiter& waiter) { return !liveness_.is_alive(waiter); }));
}

std::string RulesSide::text_of_answer(const Answer& answer, const Token& token) const {
  if (const auto* grant = std::get_if<Grant>(&answer)) {
    return "granted " + text(grant->fence.number) + " in " + text(grant->slot) +
           (grant->broken ? " broken" + text_of_taker(token) : "");
  }
  if (const auto* above = std::get_if<HeldByOuterRun>(&answer)) {
    return "above " + text(above->fence.number);
  }
  if (const auto* differ = std::get_if<SlotsDiffer>(&answer)) {
    return "slots " + text(differ->in_use);
  }
  if (const auto* by = std::get_if<Deduplicated>(&answer)) {
    return "deduplicated by " + text_of(by->by);
  }
  if (const auto* by = std::get_if<Superseded>(&answer)) {
    return "superseded by " + by->host + " " + std::to_string(by->pid);
  }
  const auto& busy = std::get<Busy>(answer);
  auto words = "busy " + text(busy.place - dead_before(busy.place)) + " among " +
               text(busy.queued - dead_before(state_.waiters.size()));
  for (const auto& holder : busy.holders) words += "\n  " + text_of_holder(holder);
  return words;
}

void RulesSide::even_out(const State& before, const Contender& self) {
  for (auto& waiter : state_.waiters) {
    const auto* former = find_waiter(before, waiter.party.token);
    const bool is_new = waiter.promised_until &&
                        (!former || former->promised_until != waiter.promised_until);
    if (!is_new) continue;
    waiter.promised_until = now_.boot + rules::promise_holds;
    if (waiter.party.token != self.claim.token) due_.insert(waiter.party.session);
  }
  for (auto& answered : state_.answered) {
    const auto& party = answered.waiter.party;
    if (find_answered(before, party.token) != nullptr) continue;
    answered.waiter.lives_until = now_.boot + rules::place_lasts;
    due_.insert(party.session);
  }
  for (const auto& run : then_.vanished) {
    std::erase_if(state_.runs, [&](const RunInfo& r) { return r.fence == run.fence; });
    record_past_run(state_, run);
  }
}

std::vector<std::string> RulesSide::shown_state() const {
  std::vector<std::string> lines;
  bool in_use = false;
  for (const auto& holder : state_.holders) {
    if (rules::is_over(holder, now_, liveness_)) continue;
    in_use = true;
    const auto ends = std::chrono::duration_cast<WallTime>(
        rules::end_of(holder).value().time_since_epoch());
    lines.push_back("holder " + text(holder.fence.number) +
                    (holder.mode == Mode::shared ? " s " : " x ") + text(holder.slot) +
                    " since " + std::to_string(holder.since.count()) + " until " +
                    std::to_string(ends.count()) + (holder.ended ? " ended" : "") +
                    (holder.broken ? " broken" : ""));
  }
  for (const auto& waiter : state_.waiters) {
    if (!liveness_.is_alive(waiter)) continue;
    in_use = true;
    const bool is_promised = rules::is_promised(waiter, now_);
    const bool is_passed = waiter.passed_over || (waiter.promised_until && !is_promised);
    lines.push_back("waiter " + text(waiter.party.session) +
                    (waiter.mode == Mode::shared ? " s" : " x") + " since " +
                    std::to_string(waiter.since.count()) +
                    (is_promised ? " promised" : "") + (is_passed ? " passed" : ""));
  }
  if (in_use) lines.push_back("slots " + text(state_.slots));
  lines.push_back("fence " + text(state_.last_fence.number));
  lines.push_back("refused " + text(state_.refused));
  lines.push_back("superseded " + text(state_.superseded));
  return lines;
}

void RulesSide::add_events(const State& before, Seen& seen) const {
  for (const auto& event :
       rules::events_between(before, state_, lock_name, cause_, now_)) {
    seen.events.push_back({event.kind, text_of(event), event.free, event.pid});
    // One that was removed by force is notified as well.
    const bool is_forced = event.taken_by && event.taken_by->forced;
    const auto& holders = is_forced ? before.holders : state_.holders;
    const bool tells = event.kind == Event::Kind::broken &&
                       std::any_of(holders.begin(), holders.end(), [&](const Holder& h) {
                         return h.fence == event.fence && !h.ends_at;
                       });
    if (tells) seen.orders.insert(event.fence);
  }
}

// For a lease that was removed before its holder knew of it, or that stays without it.
void RulesSide::add_loss(const State& before, const Step& step,
                         const Contender& contender, Seen& seen) const {
  if (step.act != Act::release || !step.end || !step.end->lost) return;
  const auto is_own = [&](const Holder& holder) {
    return holder.fence == contender.grant->fence;
  };
  const auto had = std::find_if(before.holders.begin(), before.holders.end(), is_own);
  const bool is_left = std::any_of(state_.holders.begin(), state_.holders.end(), is_own);
  if (had != before.holders.end() && (had->broken || !is_left)) return;
  auto event = rules::lost_event(*contender.grant, lock_name, state_, now_);
  event.run = *state_.last_run;
  seen.events.push_back({event.kind, text_of(event), event.free, event.pid});
}

}  // namespace dlock::against
