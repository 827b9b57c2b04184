// Chooses the steps of a random history. The same seed makes the same history.
//
// So that both sides can be compared, some things do not happen in it: nobody steps the
// clock back, no lock is foreign, set up again after it was forgotten, or left to end;
// nobody asks late enough for the server to have given up its claim, or for a place that
// was forgotten; nobody who is dead comes back; while a promise is between 1000 and 2500
// ms old nobody asks, for the scripts would call those in front; and nobody who holds the
// lock for a while after its run doubts its lease, which only one of a server can do.
#pragma once

#include <random>
#include <vector>

#include "tests/contract/history_step.hpp"
#include "tests/contract/rules_side.hpp"

namespace dlock::against {

// What the claims of a history have in common.
struct Kind {
  const char* name;
  unsigned slots;
  bool has_readers;
  bool has_runs;      // some dedupe, some hold on
  bool has_detached;  // some are
  bool has_rivals;    // some replace others, supersede them, or fear a long queue
};

// Numbers that are the same with every library, unlike std's distributions.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}

  unsigned below(unsigned end) { return static_cast<unsigned>(engine_() % end); }
  bool one_in(unsigned chances) { return below(chances) == 0; }
  template <typename Container>
  auto& pick(Container& from) {
    return from[below(static_cast<unsigned>(std::size(from)))];
  }

 private:
  std::mt19937 engine_;
};

class RandomSteps {
 public:
  RandomSteps(const Kind& kind, unsigned seed);

  // The next step, given what the rules know. Those that are gone are replaced first.
  Step next(const RulesSide& rules);
  // What was answered: who has left, or knows that it lost the lock.
  void note(const Step& step, const std::string& answer, const rules::State& state);

  std::vector<Contender>& contenders() { return contenders_; }

 private:
  Claim random_claim(Session who, const rules::State& state);
  void replace(Contender& contender, const rules::State& state);
  WallTime time_to_pass(const RulesSide& rules);
  std::optional<RunEnd> random_end(const Contender& contender);
  void choose_look(Step& step, const rules::State& state);
  void choose_for_holder(Step& step, const RulesSide& rules);

  const Kind& kind_;
  Dice dice_;
  WallTime now_{std::chrono::seconds(1'700'000'000)};
  Session last_number_ = 0;
  std::vector<Contender> contenders_;
};

}  // namespace dlock::against
