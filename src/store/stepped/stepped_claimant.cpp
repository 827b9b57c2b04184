#include "store/stepped/stepped_claimant.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lock/lease.hpp"
#include "rules/granting.hpp"
#include "rules/keeping.hpp"
#include "rules/queue.hpp"
#include "store/stepped/state_store.hpp"
#include "util/users.hpp"

namespace dlock::stepped {
namespace {

using rules::Consequences;
using rules::Liveness;
using rules::Moment;
using rules::State;
using Change = StateStore::Change;

// For a release by a caller that wants to exit.
constexpr milliseconds last_patience{80};

// Tokens are random, so that two claims hardly ever share a session. 0 is none.
rules::Session session_of(const Token& token) {
  rules::Session session = 0;
  std::memcpy(&session, token.bytes.data(), sizeof session);
  return session | 1;
}

}  // namespace

SteppedClaimant::SteppedClaimant(asio::io_context& context, StateStore& states,
                                 const Claim& claim)
    : Claimant(claim), context_(context), states_(states) {
  party_.token = claim.token;
  party_.session = session_of(claim.token);
  party_.pid = ::getpid();
  party_.user = user_name(::geteuid());
  party_.host = host_name();
}

Clock::time_point SteppedClaimant::budget_end() const {
  return later(Clock::now(), states_.timeout());
}

asio::awaitable<Answer> SteppedClaimant::ask(Queue queue, Wakeup& wakeup) {
  auto kept = claim();
  kept.command = shortened_command(claim().command);
  const Rule<Answer> rule = [&](State& state, Moment now, const Liveness& liveness,
                                Consequences& then, Change& change) {
    if (state.last_fence >= greatest_fence) {
      throw Failure(Failure::Kind::misconfigured, "no fences are left for this lock");
    }
    const rules::Ask asked{kept, party_, queue, rules::place_lasts};
    auto answer = rules::ask(state, asked, now, liveness, then);
    change.gives_a_right = std::holds_alternative<Grant>(answer);
    return answer;
  };
  may_be_known_ = true;
  auto step =
      co_await take(states_, claim().lock, rule, budget_end(), unanswered_, wakeup);
  if (auto* grant = std::get_if<Grant>(&step.answer)) {
    grant->sent_at = step.read.sent_at;
    grant->deadline = LeaseTiming(claim().ttl, {}, {}).deadline(grant->sent_at);
  }
  note(step.answer, step.read, step.change.state);
  co_return std::move(step.answer);
}

void SteppedClaimant::note(const Answer& answer, const StateStore::Snapshot& read,
                           const State& state) {
  if (std::holds_alternative<Grant>(answer)) {
    granted_ = *std::find_if(
        state.holders.begin(), state.holders.end(), [&](const rules::Holder& holder) {
          return !holder.ended && holder.party.token == claim().token;
        });
    note_taker(state);
    restraint_ = Restraint();
    return;
  }
  const auto* busy = std::get_if<Busy>(&answer);
  may_be_known_ = unanswered_ || busy == nullptr || busy->place > 0;
  const auto watch = rules::waits_for(state, claim().token, read.now);
  const auto left = std::chrono::ceil<milliseconds>(watch.ask_again - read.now.boot);
  ask_again_ = later(Clock::now(), left);
}

void SteppedClaimant::note_taker(const State& state) {
  if (granted_) taken_by_ = rules::taker_from(state, *granted_);
}

asio::awaitable<void> SteppedClaimant::await_turn(Wakeup& wakeup,
                                                  Clock::time_point until) {
  const auto end = std::min(until, ask_again_);
  co_await states_.sleep(party_.session, end, wakeup);
  const auto pause = restraint_.pause(Clock::now());
  const auto soon = std::min(end, later(Clock::now(), pause));
  if (pause > milliseconds(0)) co_await wakeup.sleep_until(soon);
}

asio::awaitable<Release> SteppedClaimant::release(const std::optional<RunEnd>& end,
                                                  Wakeup& wakeup) {
  if (claim().attached && !may_be_known_) co_return Release::not_ours;
  const auto* granted = granted_ ? &*granted_ : nullptr;
  const Rule<Release> rule = [&](State& state, Moment now, const Liveness& liveness,
                                 Consequences& then, Change&) {
    return rules::release_lease(state, claim(), granted, end, now, liveness, then);
  };
  // Not `wakeup`, which may be interrupted: the lease is released nevertheless, within a
  // short time.
  Wakeup own(context_);
  const auto patience =
      wakeup.gives_up() ? std::min(states_.timeout(), last_patience) : states_.timeout();
  const auto until = later(Clock::now(), patience);
  const auto step = co_await take(states_, claim().lock, rule, until, unanswered_, own);
  if (loss_found_by(step.answer)) {
    note_taker(step.change.state);
    co_return step.answer;  // and to be released again
  }
  granted_.reset();
  may_be_known_ = false;
  co_return step.answer;
}

asio::awaitable<Renewal> SteppedClaimant::renew(Wakeup& wakeup) {
  auto ttl = claim().ttl;
  const Rule<Renewal> rule = [&](State& state, Moment now, const Liveness& liveness,
                                 Consequences& then, Change& change) {
    change.gives_a_right = true;
    if (claim().attached) {
      return granted_ ? rules::renew_lease(state, claim(), *granted_, now, liveness, then)
                      : Renewal::gone;
    }
    ttl = rules::ttl_to_set(state, claim());
    return rules::renew(state, claim().token, ttl + claim().lock_delay, now, liveness,
                        then);
  };
  const auto step =
      co_await take(states_, claim().lock, rule, budget_end(), unanswered_, wakeup);
  if (!claim().attached) keep_ttl(ttl);
  note_taker(step.change.state);
  co_return step.answer;
}

std::unique_ptr<LeaseNews> SteppedClaimant::listen(std::function<void()> on_news) {
  if (!claim().attached) return nullptr;
  return states_.listen(party_.session, std::move(on_news));
}

}  // namespace dlock::stepped
