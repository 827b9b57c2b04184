// The rules as one side of a random history. See etcd_histories.hpp.
#pragma once

#include <utility>

#include "tests/unit/etcd_histories.hpp"

namespace dlock::etcd::histories {

// Changes the result of a step, as a mistake in the rules would.
using SpoilsState = std::function<void(const rules::State& before, rules::State& state)>;

class RulesSide final : public Side {
 public:
  explicit RulesSide(SpoilsState spoils) : spoils_(std::move(spoils)) {}

  const rules::State& state() const { return lock_.state; }

  Seen take(const Step& step, Contender& contender) override {
    lock_.now.wall = step.now;
    lock_.then = {};
    cause_ = {};
    const auto before = lock_.state;
    Seen seen;
    seen.answer = act(step, contender);
    if (spoils_) spoils_(before, lock_.state);
    rules::tidy(lock_.step());
    let_foreign_enter();
    rules::tidy(lock_.step());
    for (const auto& run : lock_.then.vanished) record(run);
    for (const auto& event : rules::events_between(before, lock_.state, lock_of_history(),
                                                   cause_, lock_.now)) {
      seen.events.push_back(text_of(event));
    }
    add_told(before, contender, seen);
    seen.state = shown(
        lock_.state,
        [](const Token& token) { return std::to_string(rules::number_of(token)); },
        lock_.now);
    return seen;
  }

 private:
  std::string act(const Step& step, Contender& contender) {
    auto& state = lock_.state;
    const auto token = rules::token_of(contender.number);
    switch (step.act) {
      case Act::ask: return ask(step, contender);
      case Act::release: return release(step, contender);
      case Act::check: return check(contender);
      case Act::take_away: return take_away(step);
      case Act::inspect: break;
      case Act::foreign_comes: {
        auto& waiter = state.waiters.emplace_back();
        waiter.party.token = token;
        waiter.party.session = contender.number;
        waiter.party.foreign = true;
        return "";
      }
      case Act::die: {
        std::erase_if(state.waiters,
                      [&](const auto& waiter) { return waiter.party.token == token; });
        for (auto& holder : state.holders) {
          if (!is_of(holder, contender)) continue;
          lock_.liveness.dead.insert(contender.number);
          if (holder.ends_at) holder.ends_at = lock_.now.boot;
        }
        std::erase_if(state.holders, [&](const auto& holder) {
          return holder.party.foreign && holder.party.token == token;
        });
        return "";
      }
    }
    auto runs = rules::runs_of_holders(state, lock_.now, lock_.liveness);
    runs.insert(runs.end(), state.runs.begin(), state.runs.end());
    return text_of(lock_.info()) + text_of(as_history(std::move(runs), lock_.now.wall));
  }

  bool is_of(const rules::Holder& holder, const Contender& contender) const {
    const auto fence = fences_.find(contender.number);
    return fence != fences_.end() && holder.fence == fence->second;
  }

  rules::Party party_of(const Contender& contender) const {
    auto party = rules::party_of(contender.number);
    party.user = "u";
    return party;
  }

  std::string ask(const Step& step, Contender& contender) {
    const auto claim = claim_of(contender);
    const auto party = party_of(contender);
    auto& state = lock_.state;
    const auto answer = rules::ask(lock_.step(), {claim, party, step.queue});
    for (const auto& holder : lock_.then.broken) cause_.broken.push_back(holder.fence);
    cause_.taken_by = rules::replacing(party);
    if (const auto* grant = std::get_if<Grant>(&answer)) {
      fences_[contender.number] = grant->fence;
      contender.was_granted = true;
      const CommandProcess command{1, lock_.now.boot, lock_.now.boot};
      if (claim.attached) record_command(state, claim.token, command);
      grants_[contender.number] = *rules::holder_of(state, claim.token);
    } else if (rules::waiter_of(state, claim.token) == state.waiters.end() ||
               !std::holds_alternative<Busy>(answer)) {
      rules::release(lock_.step(), claim.token, std::nullopt);
    }
    return text_of(answer);
  }

  std::string release(const Step& step, const Contender& contender) {
    auto& state = lock_.state;
    const auto& token = contender.claim.token;
    const auto own = rules::holder_of(state, token);
    const bool is_gone = contender.was_granted && own == state.holders.end();
    const bool is_loss_known = !step.end || step.end->lost;
    if (is_gone && step.end) {
      if (!is_loss_known) return check(contender);
      rules::record_loss(state, grants_.at(contender.number), *step.end, lock_.now);
      record(*state.last_run);
      return "not ours";
    }
    if (own != state.holders.end() && own->broken && !is_loss_known) return "broken";
    cause_ = {token, step.end, {}, {}};
    const auto answer = rules::release(lock_.step(), token, step.end);
    if (answer == Release::released && step.end) record(*state.last_run);
    return answer == Release::released ? "released" : "not ours";
  }

  std::string check(const Contender& contender) {
    auto& state = lock_.state;
    const auto own = rules::holder_of(state, contender.claim.token);
    if (own != state.holders.end()) return own->broken ? "broken" : "renewed";
    const auto fence = fences_.find(contender.number);
    if (fence == fences_.end()) return "lost";
    return "lost" + text_of(rules::forced_by(state, fence->second));
  }

  std::string take_away(const Step& step) {
    Taker by;
    by.forced = step.by_force;
    cause_.taken_by = by;
    std::vector<HolderInfo> meant;
    for (const auto& holder :
         rules::break_leases(lock_.step(), fences_of(step.meant), by)) {
      cause_.broken.push_back(holder.fence);
      meant.push_back(rules::info_of(holder, lock_.now));
    }
    return text_of_holders(meant);
  }

  // Also one that gets the lock because of what the rest of the step did.
  void let_foreign_enter() {
    auto& state = lock_.state;
    if (!state.answered.empty() || !state.holders.empty() || state.waiters.empty())
      return;
    if (!state.waiters.front().party.foreign) return;
    auto& holder = state.holders.emplace_back();
    holder.party = state.waiters.front().party;
    holder.party.session = 0;
    holder.granted_at = lock_.now.boot;
    state.waiters.erase(state.waiters.begin());
  }

  void record(const RunInfo& run) {
    auto& runs = lock_.state.runs;
    std::erase_if(runs, [&](const RunInfo& one) { return one.fence == run.fence; });
    rules::record_past_run(lock_.state, run);
  }

  // The waiters that were promised the lock, or have been answered, must be woken.
  void add_told(const rules::State& before, const Contender& self, Seen& seen) const {
    const auto had_turn = [&](const Token& token) {
      return std::any_of(before.waiters.begin(), before.waiters.end(),
                         [&](const auto& waiter) {
                           return waiter.party.token == token && waiter.promised_until;
                         });
    };
    for (const auto& waiter : lock_.state.waiters) {
      const auto& party = waiter.party;
      if (waiter.promised_until && !party.foreign && !had_turn(party.token) &&
          party.session != self.number) {
        seen.told.insert(party.session);
      }
    }
    for (const auto& answered : lock_.state.answered) {
      seen.told.insert(answered.waiter.party.session);
    }
  }

  rules::LockByHand lock_;
  rules::Cause cause_;
  std::map<Session, rules::Holder> grants_;
  SpoilsState spoils_;
};

}  // namespace dlock::etcd::histories
