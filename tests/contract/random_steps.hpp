// Chooses the steps of a random history. The same seed makes the same history.
//
// Some things never happen in a history, because only one side knows them:
//
// - The clock does not step back, but to what it showed since the state to which a server
//   goes back.
// - No lock is foreign, or left to expire.
// - No request arrives so late that the server has abandoned its claim or deleted its
//   place in the queue.
// - The dead do not come back.
// - No claim asks while a promise is between 1000 and 2500 ms old, because the scripts
//   would then call the waiters before it.
// - No lease that was broken is left to expire: if it is broken again, the scripts name
//   the first who did so, and the rules the last.
// - A holder whose lock is kept by --min-hold does not check its lease.
#pragma once

#include <vector>

#include "tests/contract/history_step.hpp"
#include "tests/contract/rules_side.hpp"
#include "tests/dice.hpp"

namespace dlock::against {

// What all claims of a history have in common.
struct Kind {
  const char* name;
  unsigned slots;
  bool has_readers = false;
  bool has_runs = false;            // some use --dedupe or --min-hold
  bool has_detached = false;        // some are detached
  bool uses_queue_options = false;  // some use --replace, --supersede or --max-queue
  // Some break by force; some renewals keep the ttl; some lost runs leave their lease.
  bool has_force = false;
  bool has_priorities = false;
  bool spreads = false;  // some with slots use --spread
  // Servers go back to an older state, and leases that they lack then are set up again.
  bool reclaims = false;
};

class RandomSteps {
 public:
  RandomSteps(const Kind& kind, unsigned seed);

  // The next step, given the state of the rules. Replaces ended contenders first.
  Step next(const RulesSide& rules);
  // The same once no new contender comes: each releases the lock if it has it, and else
  // asks in turn, by when promises to others have lapsed. Only looks if none is left.
  Step last(const RulesSide& rules);
  // Takes note of an answer: who has left, or knows that it lost the lock.
  void note(const Step& step, const std::string& answer, const rules::State& state);

  std::vector<Contender>& contenders() { return contenders_; }

 private:
  Claim random_claim(Session who, const rules::State& state);
  void replace(Contender& contender, const rules::State& state);
  WallTime time_to_pass(const RulesSide& rules);
  std::optional<RunEnd> random_end(const Contender& contender);
  void choose_look(Step& step, const rules::State& state);
  void choose_for_holder(Step& step, const RulesSide& rules);
  void choose_state(Step& step);

  const Kind& kind_;
  Dice dice_;
  WallTime now_{std::chrono::seconds(1'700'000'000)};
  WallTime saved_at_ = now_;
  Session last_number_ = 0;
  std::size_t turn_ = 0;
  std::vector<Contender> contenders_;
};

}  // namespace dlock::against
