// The granting rules with processes that are woken, watch each other, stop and die at
// random, as on the embedded store: none waits for a free lock. That the rules exclude,
// keep the order and let fences grow, others show: rules_test, the comparison with the
// scripts (tests/contract/rules_against_lua_test.cpp) and the simulation.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/dice.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::seconds;

// What all claims of a history have in common.
struct Kind {
  const char* name;
  unsigned slots;
  bool readers;
  bool dedupes = false;  // and uses min_hold
};
constexpr Kind kinds[] = {{"mutex", 1, false},
                          {"semaphore", 3, false},
                          {"readers_and_writers", 1, true},
                          {"deduplicated", 1, false, true}};

std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

Claim random_claim(Session who, const Kind& kind, Dice& dice) {
  if (kind.readers && dice.below(3) > 0) return shared(who);
  auto claim = slot(who, kind.slots);
  if (kind.dedupes && dice.one_in(2)) {
    claim.dedupe = Dedupe{milliseconds(dice.below(3000)), dice.one_in(2)};
  }
  if (kind.dedupes && dice.one_in(4)) claim.min_hold = milliseconds(dice.below(5000));
  return claim;
}

bool has_promise(const Waiter& waiter, Moment now) {
  return waiter.promised_until && *waiter.promised_until > now.boot;
}

// Whether the lock has room for one more of this mode.
bool admits(const State& state, Mode mode, Moment now) {
  unsigned exclusive = 0;
  unsigned shared = 0;
  const auto add = [&](Mode m) { ++(m == Mode::shared ? shared : exclusive); };
  for (const auto& holder : state.holders) add(holder.mode);
  for (const auto& waiter : state.waiters) {
    if (has_promise(waiter, now)) add(waiter.mode);
  }
  return mode == Mode::shared ? exclusive == 0 : shared == 0 && exclusive < state.slots;
}

// Contenders as processes that behave as with LocalStore: they ask again when they are
// woken, when a process that they watch ends, and at the time that the rules set.
class Town : protected LockByHand {
 public:
  Town(const Kind& kind, unsigned seed) : kind_(kind), dice_(seed) {}

  // One random event, and everything that follows from it at once.
  void happen() {
    auto processes = living();
    if (processes.size() < 3 || (processes.size() < 8 && dice_.one_in(2))) {
      arrive();
    } else {
      leave(dice_.pick(processes), dice_.one_in(3));
    }
    settle();
  }

  // `is_seen`: the kernel shows a process that a signal stopped, but not a frozen one.
  void stop_somebody(bool is_seen) {
    auto processes = living();
    if (processes.empty()) return;
    const auto who = dice_.pick(processes);
    stopped_.insert(who);
    if (is_seen) liveness.stopped.insert(who);
  }
  void stop_somebody() { stop_somebody(dice_.one_in(2)); }

  void let_all_go_on() {
    stopped_.clear();
    liveness.stopped.clear();
    settle();
  }

  // Only time passes.
  void wait(nanoseconds time) {
    const auto end = now.boot + time;
    for (;;) {
      auto next = end;
      for (const auto& [who, process] : processes_) {
        if (process.waits && stopped_.count(who) == 0) {
          next = std::min(next, process.ask_again);
        }
      }
      pass(std::max(next - now.boot, nanoseconds(0)));
      if (now.boot >= end) return;
      for (auto& [who, process] : processes_) {
        if (process.waits && process.ask_again <= now.boot) woken_.insert(who);
      }
      settle();
    }
  }

  // Whether a waiter that could be granted the lock has not asked for it, though it is
  // neither stopped nor behind one that is frozen.
  bool is_idle() const {
    for (const auto& waiter : state.waiters) {
      if (!liveness.is_alive(waiter)) continue;
      const bool can_go =
          has_promise(waiter, now) || admits(without_dead(), waiter.mode, now);
      if (can_go && liveness.is_stopped(waiter)) continue;
      return can_go && stopped_.count(waiter.party.session) == 0;
    }
    return false;
  }

  bool somebody_waits() const {
    return std::any_of(state.waiters.begin(), state.waiters.end(), [&](const Waiter& w) {
      return liveness.is_alive(w) && stopped_.count(w.party.session) == 0;
    });
  }

  // Makes every holder release, in turn, until there is none. The next one is granted the
  // lock after at most 3 seconds for each stopped process, and min_hold.
  void let_all_finish() {
    while (!without_dead().holders.empty()) {
      leave(without_dead().holders.front().party.session, false);
      settle();
      wait(seconds(3) * static_cast<int>(stopped_.size()) + seconds(5) + milliseconds(1));
    }
  }

 private:
  struct Process {
    Claim claim;
    bool waits = false;
    std::set<Session> watched;
    Clock::time_point ask_again;
  };

  State without_dead() const {
    State living = state;
    std::erase_if(living.holders, [&](const Holder& h) { return !liveness.is_alive(h); });
    return living;
  }

  std::vector<Session> living() const {
    std::vector<Session> all;
    for (const auto& [who, process] : processes_) all.push_back(who);
    return all;
  }

  void arrive() {
    const auto who = ++last_session_;
    processes_[who].claim = random_claim(who, kind_, dice_);
    woken_.insert(who);
  }

  void leave(Session who, bool dies) {
    if (dies) {
      liveness.dead.insert(who);
    } else {
      release(who);
      take_in_wakes();
    }
    end(who);
  }

  void end(Session who) {
    liveness.dead.insert(who);
    processes_.erase(who);
    woken_.erase(who);
    stopped_.erase(who);
    liveness.stopped.erase(who);
    for (const auto& [other, process] : processes_) {
      if (process.waits && process.watched.count(who) > 0) woken_.insert(other);
    }
  }

  void take_in_wakes() { woken_.insert(then.wake.begin(), then.wake.end()); }

  // Lets the woken processes ask, in any order, until there are none.
  void settle() {
    for (int asks = 0;; ++asks) {
      if (asks > 1000) {
        ADD_FAILURE() << "the processes never stop asking";
        return woken_.clear();
      }
      std::vector<Session> ready;
      for (const auto who : woken_) {
        if (stopped_.count(who) == 0) ready.push_back(who);
      }
      if (ready.empty()) return;
      const auto who = dice_.pick(ready);
      woken_.erase(who);
      if (processes_.count(who) > 0) ask_once(who, processes_[who]);
    }
  }

  void ask_once(Session who, Process& process) {
    const auto answer = ask(process.claim, Queue::join);
    process.waits = std::holds_alternative<Busy>(answer);
    process.watched.clear();
    if (process.waits) follow(watch(who), process);
    take_in_wakes();
  }

  void follow(const WaitsFor& watch, Process& process) {
    process.ask_again = watch.ask_again;
    const auto add = [&](Session session) {
      process.watched.insert(session);
      // As if its pidfd can no longer be opened: no later event would report its end.
      if (processes_.count(session) == 0) woken_.insert(number_of(process.claim.token));
    };
    if (watch.predecessor != nullptr) add(watch.predecessor->session);
    for (const auto* holder : watch.holders) add(holder->party.session);
  }

  Kind kind_;
  Dice dice_;
  Session last_session_ = 0;
  std::map<Session, Process> processes_;
  std::set<Session> woken_;
  std::set<Session> stopped_;
};

class RulesTown : public ::testing::TestWithParam<Kind> {};

TEST_P(RulesTown, releases_and_deaths_reach_the_next_waiter_without_a_timeout) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Town town(GetParam(), seed);
    for (int i = 0; i < 1000; ++i) {
      town.happen();

      ASSERT_FALSE(town.is_idle()) << "seed " << seed << ", step " << i;
    }
  }
}

TEST_P(RulesTown, every_waiter_gets_its_turn_in_time_though_others_are_stopped) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Town town(GetParam(), seed);
    for (int i = 0; i < 20; ++i) {
      for (int event = 0; event < 8; ++event) town.happen();
      for (int stops = 0; stops < 5; ++stops) town.stop_somebody();

      town.let_all_finish();

      ASSERT_FALSE(town.somebody_waits()) << "seed " << seed << ", round " << i;
      town.let_all_go_on();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, RulesTown, ::testing::ValuesIn(kinds), name_of);

}  // namespace
}  // namespace dlock::rules
