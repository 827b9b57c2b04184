// The rules of src/rules as one side of a history.
//
// The rules learn from the kernel that a process has died, the scripts from the clock.
// The differences that follow from this are removed here:
//
// - An attached holder dies when its lease ends. A waiter is dead when it has not asked
//   for 90 s (rules::ClockLiveness), and one that left the queue because of a run 90 s
//   later.
// - A promise after one that lapsed lasts as long as any other: the scripts call the
//   waiters before it to find the dead ones, instead of trying each for 500 ms.
// - A waiter that was handed the lock with the release asks for it at once.
// - A holder that asks for an ended lease learns that at once, whether or not the lease
//   was removed before.
// - Whether a lost lease was `taken over` or is `gone` is not compared: only the scripts
//   know that another claim held the lock in between, or was promised it.
// - A run that was recorded as vanished and then ends has one record, not two of which
//   the first counts.
// - The dead are not shown and do not count for positions: when they are removed depends
//   on who asks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/look.hpp"
#include "tests/contract/history_step.hpp"

namespace dlock::against {

class RulesSide {
 public:
  // Changes the result of a step, as a bug in the rules would.
  struct Spoiled {
    const Step& step;
    const rules::State& before;
    rules::State& state;
    std::string& answer;
    std::vector<Session>& wake;
  };
  using Bug = std::function<void(Spoiled)>;

  explicit RulesSide(Bug bug = {}) : bug_(std::move(bug)) {}

  // Takes the step. The scripts have handed the lock to `handed` in it.
  Seen take(const Step& step, std::vector<Contender>& contenders,
            const std::set<Session>& handed);

  const rules::State& state() const { return state_; }
  // Whether this waiter has not asked for too long at `now`.
  bool is_dead(const Token& token, WallTime now) const;
  static bool is_over(const rules::Holder& holder, WallTime now) {
    const rules::Moment moment{Clock::time_point(now), now};
    return rules::is_over(holder, moment, rules::ClockLiveness(moment));
  }
  // The pids of the waiters that have died so far.
  const std::set<pid_t>& dead() const { return dead_; }
  // Whom both sides have to notify: the waiters that were promised the lock in the last
  // step, or removed from the queue.
  const std::set<Session>& due() const { return due_; }

 private:
  rules::Step here() { return {state_, now_, liveness_, then_}; }
  std::string ask(const Claim& claim, Queue queue, Contender& contender);
  std::string release(const Step& step, Contender& contender);
  std::string renew(const Step& step, const Contender& contender);
  void forget_since(Contender& contender) const;
  std::string take_away(const Step& step);
  std::string act(const Step& step, Contender& contender);
  std::string text_of_answer(const Answer& answer, const Token& token) const;
  std::string text_of_taker(const Token& token,
                            const rules::Holder* loser = nullptr) const;
  std::size_t dead_before(std::size_t place) const;
  void even_out(const rules::State& before, const Contender& self);
  std::vector<std::string> shown_state() const;
  void add_events(const rules::State& before, Seen& seen) const;
  void add_loss(const rules::State& before, const Step& step, const Contender& contender,
                Seen& seen) const;

  Bug bug_;
  rules::State state_, saved_;
  rules::Moment now_;
  rules::ClockLiveness liveness_{now_};
  rules::Consequences then_;
  rules::Cause cause_;
  std::set<pid_t> dead_;
  std::set<Session> due_;
};

}  // namespace dlock::against
