// The rules of src/rules as one side of a history.
//
// They learn of ends from the kernel, and the scripts by the clock. What that makes
// different, and is not to be compared, is evened out here:
//
// - a holder that is attached has ended with its lease, a waiter is dead once it was not
//   heard of for 90 s, and one that left the queue because of a run 90 s later;
// - a promise behind one that lapsed lasts as long as any: the scripts call those in
//   front to tell the dead from the living, instead of trying each for 500 ms;
// - one that was handed the lock with the release has asked for it at once;
// - one that asks for a lease that is over learns that at once, whether or not it was
//   cleared before;
// - whether a lost lease was `taken over` or is `gone` is not compared: the scripts
//   know that somebody had the lock in between, or is promised it;
// - a run that was taken for one that vanished has one record once it is known better,
// and
//   not two of which the first counts;
// - the dead are not shown and do not count for places: when they are removed depends on
//   who looks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rules/events.hpp"
#include "tests/contract/history_step.hpp"

namespace dlock::against {

class RulesSide final : public rules::Lives {
 public:
  // Spoils what the rules have made of a step, as a bug in them would.
  struct Spoiled {
    const Step& step;
    const rules::State& before;
    rules::State& state;
    std::string& answer;
    std::vector<Session>& wake;
  };
  using Bug = std::function<void(Spoiled)>;

  explicit RulesSide(Bug bug = {}) : bug_(std::move(bug)) {}

  // Takes the step, in which the scripts have handed the lock to `handed`.
  Seen take(const Step& step, std::vector<Contender>& contenders,
            const std::set<Session>& handed);

  const rules::State& state() const { return state_; }
  // Whether this waiter was not heard of for too long at `now`.
  bool is_dead(const Token& token, WallTime now) const;
  WallTime place_ends(const Token& token) const { return place_ends_.at(token); }
  bool lease_is_over(const rules::Holder& holder, WallTime now) const;
  // The waiters that have died so far, by the pids that are shown of them.
  const std::set<pid_t>& dead() const { return dead_; }
  // Who has to be told by either side: promised the lock in the last step, or sent away.
  const std::set<Session>& due() const { return due_; }

  bool lives(const rules::Holder& holder) const override;
  bool lives(const rules::Waiter& waiter) const override;
  bool is_stopped(const rules::Waiter&) const override { return false; }

 private:
  std::string ask(const Claim& claim, Queue queue, Contender& contender);
  std::string release(const Step& step, Contender& contender);
  std::string release_lost(const Step& step, const Contender& contender);
  std::string renew(const Contender& contender);
  std::string take_away(const Step& step);
  std::string act(const Step& step, Contender& contender);
  std::string text_of_answer(const Answer& answer, const Token& token) const;
  std::string text_of_taker(const Token& token) const;
  std::optional<Loss> loss_of(const Token& token) const;
  std::size_t dead_before(std::size_t place) const;
  void even_out(const rules::State& before, const Contender& self);
  std::vector<std::string> shown_state() const;
  void add_events(const rules::State& before, Seen& seen) const;
  void add_loss(const rules::State& before, const Step& step, const Contender& contender,
                Seen& seen) const;

  Bug bug_;
  rules::State state_;
  rules::Moment now_;
  rules::Consequences then_;
  rules::Cause cause_;
  std::map<Fence, WallTime> lease_ends_;
  std::map<Token, WallTime> place_ends_;
  std::set<pid_t> dead_;
  std::set<Session> due_;
};

}  // namespace dlock::against
