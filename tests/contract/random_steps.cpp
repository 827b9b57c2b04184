#include "tests/contract/random_steps.hpp"

#include <algorithm>

#include "rules/queue.hpp"

namespace dlock::against {
namespace {

constexpr std::size_t at_a_time = 7;

// When waiters before an untaken promise are called (UNTAKEN_MS, PROMISE_MS and
// ANSWER_MS in the scripts).
constexpr milliseconds calls_from{1000};
constexpr milliseconds calls_until{2500};

const rules::Holder* holder_with(const rules::State& state, const Contender& contender) {
  for (const auto& holder : state.holders) {
    const bool is_own = contender.grant && holder.fence == contender.grant->fence &&
                        holder.party.token == contender.claim.token;
    if (is_own && !holder.ended) return &holder;
  }
  return nullptr;
}

// Whether the claim waits, or was answered while it waited.
bool is_known(const rules::State& state, const Token& token) {
  const auto has_token = [&](const rules::Waiter& waiter) {
    return waiter.party.token == token;
  };
  return std::any_of(state.waiters.begin(), state.waiters.end(), has_token) ||
         std::any_of(state.answered.begin(), state.answered.end(),
                     [&](const auto& answered) { return has_token(answered.waiter); });
}

}  // namespace

RandomSteps::RandomSteps(const Kind& kind, unsigned seed)
    : kind_(kind), dice_(seed), contenders_(at_a_time) {
  for (auto& contender : contenders_) replace(contender, {});
}

Claim RandomSteps::random_claim(Session who, const rules::State& state) {
  constexpr unsigned ttls[] = {50, 1000, 4000, 30'000, 60'000, 200'000};
  auto claim = rules::exclusive(who);
  const bool differs = dice_.one_in(30);
  if (kind_.has_readers && dice_.below(3) > 0) {
    claim.mode = Mode::shared;
  } else {
    claim.slots = differs ? 2 : kind_.slots;
  }
  claim.ttl = milliseconds(dice_.pick(ttls));
  claim.attached = !(kind_.has_detached && dice_.one_in(3));
  claim.keeps_ttl = kind_.has_force && dice_.one_in(2);
  claim.on_behalf_of = static_cast<pid_t>(1000 + who);
  const bool is_mutex = claim.mode == Mode::exclusive && claim.slots == 1;
  if (kind_.has_runs && is_mutex && claim.attached && dice_.one_in(2)) {
    claim.dedupe = Dedupe{milliseconds(dice_.below(6000)), dice_.one_in(3)};
    claim.dedupe->joins = !claim.dedupe->retry_failed && dice_.one_in(4);
  }
  if (kind_.has_runs && claim.attached && dice_.one_in(4)) {
    claim.min_hold = milliseconds(dice_.below(5000));
  }
  if (kind_.uses_queue_options) {
    claim.supersedes = dice_.one_in(3);
    claim.replaces = claim.attached && dice_.one_in(4);
    if (dice_.one_in(5)) claim.max_queue = dice_.below(3);
  }
  if (kind_.has_priorities && dice_.one_in(2)) {
    claim.priority = static_cast<int>(dice_.below(5)) - 2;
  }
  claim.spreads = kind_.spreads && claim.slots > 1 && dice_.one_in(2);
  if (!state.holders.empty() && dice_.one_in(8)) {
    claim.outer_fences = {dice_.pick(state.holders).fence};
  }
  return claim;
}

void RandomSteps::replace(Contender& contender, const rules::State& state) {
  const auto number = ++last_number_;
  contender = {number, random_claim(number, state), {}, false, false};
}

WallTime RandomSteps::time_to_pass(const RulesSide& rules) {
  constexpr unsigned often[] = {0, 0, 0, 0, 0, 1, 1, 4, 9, 20, 100, 300};
  constexpr unsigned seldom[] = {700, 2000, 2600, 3000, 5000, 12'000, 31'000, 60'000};
  milliseconds passes(dice_.one_in(5) ? dice_.pick(seldom) : dice_.pick(often));
  if (dice_.one_in(300))
    passes = dice_.one_in(4) ? milliseconds(700'000) : rules::place_lasts;
  // The scripts take a fence for the time of its grant.
  if (kind_.reclaims) passes = std::max(passes, milliseconds(1));
  const auto& waiters = rules.state().waiters;
  const rules::Moment now{Clock::time_point(now_), now_};
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    if (!rules::is_promised(waiters[i], now)) continue;
    const auto left =
        std::chrono::duration_cast<milliseconds>(*waiters[i].promised_until - now.boot);
    const auto age = rules::promise_holds - left + passes;
    const bool calls = age >= calls_from && age <= calls_until;
    const bool dies = age < rules::promise_holds &&
                      rules.is_dead(waiters[i].party.token, now_ + passes);
    if (!calls && !dies) continue;
    passes += dies ? rules::promise_holds - age : calls_until + milliseconds(1) - age;
    i = static_cast<std::size_t>(-1);  // starts again: it may be too late for another one
  }
  return passes;
}

std::optional<RunEnd> RandomSteps::random_end(const Contender& contender) {
  constexpr int codes[] = {0, 0, 1, 127};
  if (!contender.claim.attached) return std::nullopt;
  RunEnd end;
  end.duration = milliseconds(1500);
  end.exit_code = dice_.pick(codes);
  if ((kind_.reclaims || kind_.has_force) && dice_.one_in(6)) {
    end.exit_code.reset();
    end.signal = "TERM";
  }
  end.outcome = "ran";
  if (contender.knows_loss ||
      (contender.claim.min_hold.count() == 0 && dice_.one_in(12))) {
    end.lost = Loss::unconfirmed;
    end.exit_code = 76;
    end.signal.reset();
    end.outcome = "lost";
    end.leaves_lease = kind_.has_force && dice_.one_in(2);
  } else if (dice_.one_in(8)) {
    return std::nullopt;
  } else {
    end.is_shared = dice_.one_in(3);
  }
  return end;
}

void RandomSteps::choose_look(Step& step, const rules::State& state) {
  constexpr Act acts[] = {Act::take_away, Act::remove_expired, Act::inspect, Act::history,
                          Act::remove_expired};
  step.act = dice_.pick(acts);
  if (step.act != Act::take_away) return;
  step.by_force = kind_.has_force && dice_.one_in(2);
  step.fences.push_back(Fence{7});  // no holder has it
  for (const auto& holder : state.holders) {
    if (dice_.one_in(2)) step.fences.push_back(holder.fence);
  }
}

void RandomSteps::choose_for_holder(Step& step, const RulesSide& rules) {
  const auto& contender = contenders_[step.who];
  const auto* holder = holder_with(rules.state(), contender);
  const bool holds = holder != nullptr && !rules.is_over(*holder, now_);
  const auto chance = dice_.below(10);
  if (chance < 2 && (holds || dice_.one_in(4)) && !contender.knows_loss) {
    step.act = Act::ask;  // the answer may have been lost or may be late
  } else if (chance < 6 && !contender.knows_loss) {
    const bool is_forced =
        rules::forced_by(rules.state(), contender.grant->fence).has_value();
    const bool may_reclaim = kind_.reclaims && contender.claim.attached && !is_forced;
    step.act = !holds && may_reclaim ? Act::reclaim : Act::renew;
    step.shortens = kind_.reclaims && !contender.claim.attached && dice_.one_in(2);
  } else {
    step.act = Act::release;
    step.end = random_end(contender);
    const bool is_broken = holder != nullptr && holder->broken;
    if (step.end && is_broken) step.end->leaves_lease = false;
  }
}

void RandomSteps::choose_state(Step& step) {
  step.act = dice_.one_in(2) ? Act::save : Act::go_back;
  if (step.act == Act::save) {
    saved_at_ = now_;
    return;
  }
  const auto since = static_cast<unsigned>((now_ - saved_at_).count() / 1000);
  now_ = saved_at_ + milliseconds(dice_.below(since + 1));
  step.now = now_;
}

Step RandomSteps::next(const RulesSide& rules) {
  now_ += time_to_pass(rules);
  Step step;
  step.now = now_;
  step.who = dice_.below(at_a_time);
  auto& contender = contenders_[step.who];
  // The dead do nothing any more.
  if (contender.waits && rules.is_dead(contender.claim.token, now_)) {
    replace(contender, rules.state());
  }
  if (kind_.reclaims && dice_.one_in(30)) {
    choose_state(step);
  } else if (dice_.one_in(7)) {
    choose_look(step, rules.state());
  } else if (contender.grant) {
    choose_for_holder(step, rules);
  } else {
    step.act = dice_.one_in(10) ? Act::release : Act::ask;
    const auto stays_out = step.who % 2 == 0 ? Queue::refuse : Queue::stay_out;
    step.queue = dice_.one_in(6) ? stays_out : Queue::join;
  }
  return step;
}

Step RandomSteps::last(const RulesSide& rules) {
  now_ += rules::promise_holds + milliseconds(1);
  Step step;
  step.now = now_;
  step.act = Act::inspect;
  for (std::size_t i = 0; i < at_a_time && step.act == Act::inspect; ++i) {
    step.who = turn_++ % at_a_time;
    auto& contender = contenders_[step.who];
    contender.waits &= !rules.is_dead(contender.claim.token, now_);
    if (contender.grant || contender.waits) step.act = Act::ask;
    if (!contender.grant) continue;
    step.act = Act::release;
    step.end = random_end(contender);
  }
  return step;
}

void RandomSteps::note(const Step& step, const std::string& answer,
                       const rules::State& state) {
  auto& contender = contenders_[step.who];
  const bool has_ended = answer == "released" || answer == "not ours";
  if (step.act == Act::ask) {
    contender.waits = is_known(state, contender.claim.token);
  }
  if (step.act == Act::release && has_ended) replace(contender, state);
  if (step.act == Act::release && !has_ended) contender.knows_loss = true;
}

}  // namespace dlock::against
