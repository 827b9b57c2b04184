#include "rules/step.hpp"

namespace dlock::rules {

void remove_dead_holders(const Step& step, const Token* self) {
  std::erase_if(step.state.holders, [&](const Holder& holder) {
    if (self != nullptr && holder.party.token == *self) return false;
    if (!is_over(holder, step.now, step.liveness)) return false;
    // It may have died before it removed the socket on which it waited.
    if (holder.party.session != 0) step.then.dead.push_back(holder.party.session);
    if (may_have_run(holder)) {
      record_run(step.state, run_of_gone(holder));
      step.then.vanished.push_back(*step.state.last_run);
    } else if (is_by_hand(holder)) {
      step.then.vanished.push_back(lease_by_hand(holder, step.now));
    }
    return true;
  });
}

void remove_dead_answered(const Step& step) {
  std::erase_if(step.state.answered, [&](const AnsweredWaiter& answered) {
    if (step.liveness.is_alive(answered.waiter)) return false;
    step.then.dead.push_back(answered.waiter.party.session);
    return true;
  });
}

}  // namespace dlock::rules
