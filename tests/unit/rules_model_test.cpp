// The granting rules under random histories: what must be true after every step.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// Random numbers that are the same with every library, unlike std's distributions.
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

Claim random_claim(Session who, const Kind& kind, Dice& dice) {
  if (kind.readers && dice.below(3) > 0) return shared(who);
  auto claim = slot(who, kind.slots);
  if (kind.dedupes && dice.one_in(2)) {
    claim.dedupe = Dedupe{milliseconds(dice.below(3000)), dice.one_in(2)};
  }
  if (kind.dedupes && dice.one_in(4)) claim.min_hold = milliseconds(dice.below(5000));
  return claim;
}

// How a command may end.
std::optional<RunEnd> random_end(Dice& dice) {
  constexpr int codes[] = {0, 0, 1, 127};
  if (dice.one_in(5)) return std::nullopt;
  RunEnd end;
  end.exit_code = dice.pick(codes);
  end.outcome = "ran";
  return end;
}

bool contains(const std::vector<Session>& sessions, Session who) {
  return std::find(sessions.begin(), sessions.end(), who) != sessions.end();
}

const Waiter* waiter_of(const State& state, Session who) {
  for (const auto& waiter : state.waiters) {
    if (waiter.party.session == who) return &waiter;
  }
  return nullptr;
}

const Holder* holder_of(const State& state, Session who) {
  for (const auto& holder : state.holders) {
    if (holder.party.session == who) return &holder;
  }
  return nullptr;
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

// A history of a few contenders that ask, release, die and let time pass at random. Each
// step is checked against a few properties that share no code with the rules.
class History : protected LockByHand {
 public:
  History(const Kind& kind, unsigned seed) : kind_(kind), dice_(seed) {
    for (auto& claim : claims_) claim = newcomer();
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
  }

  std::size_t grants() const { return grants_; }
  std::size_t deduplicated() const { return deduplicated_; }

 private:
  Claim newcomer() { return random_claim(++last_session_, kind_, dice_); }

  void step() {
    auto& claim = dice_.pick(claims_);
    switch (dice_.below(18)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: return check_ask(claim, Queue::join);
      case 6:
      case 7: return check_ask(claim, Queue::stay_out);
      case 8:
      case 9:
      case 10: return check_release(dice_.one_in(2) ? claim : one_that_holds(claim));
      case 11: return die(claim);
      case 12: return record_command(state, claim.token, {1, now.boot, now.boot});
      case 13: return step_the_wall_clock();
      case 14:
      case 15: return stop(claim);
      default: return pass(milliseconds(dice_.below(2500)));
    }
  }

  Claim& one_that_holds(Claim& otherwise) {
    for (auto& claim : claims_) {
      if (holder_of(state, number_of(claim.token)) != nullptr) return claim;
    }
    return otherwise;
  }

  void die(Claim& claim) {
    liveness.dead.insert(number_of(claim.token));
    claim = newcomer();
  }

  // It is stopped until it does something again.
  void stop(const Claim& claim) { liveness.stopped.insert(number_of(claim.token)); }

  void step_the_wall_clock() { now.wall += seconds(dice_.below(20)) - seconds(10); }

  void check_ask(const Claim& claim, Queue queue) {
    auto asked = claim;
    if (kind_.slots > 1 && dice_.one_in(20)) asked.slots = kind_.slots + 1;
    const auto who = number_of(claim.token);
    const State before = state;
    liveness.stopped.erase(who);
    see_late_waiters();
    late_.erase(who);

    const auto answer = ask(asked, queue);
    see_stopped_waiters();

    if (const auto* held = holder_of(before, who)) {
      EXPECT_EQ(std::get<Grant>(answer).fence, held->fence) << "not the same grant";
      return;
    }
    if (const auto* grant = std::get_if<Grant>(&answer)) {
      check_fence(grant->fence);
      check_turn_of(who, before);
      ++grants_;
    } else if (const auto* busy = std::get_if<Busy>(&answer)) {
      check_place(who, *busy, queue, before);
    } else if (std::holds_alternative<Deduplicated>(answer)) {
      EXPECT_TRUE(asked.dedupe) << "deduplicated without asking for it";
      EXPECT_EQ(waiter_of(state, who), nullptr) << "deduplicated, but still waits";
      ++deduplicated_;
    } else {
      EXPECT_TRUE(!state.holders.empty() || !state.waiters.empty())
          << "a number of slots was refused though the lock is not in use";
    }
    check_all(before, who);
  }

  void check_release(Claim& claim) {
    const auto who = number_of(claim.token);
    const State before = state;
    liveness.stopped.erase(who);
    see_late_waiters();

    const auto outcome = release(who, random_end(dice_));
    see_stopped_waiters();

    EXPECT_EQ(outcome == Release::released, holder_of(before, who) != nullptr);
    EXPECT_EQ(holder_of(state, who), nullptr);
    EXPECT_EQ(waiter_of(state, who), nullptr);
    check_all(before, who);
    claim = newcomer();
  }

  // Records the waiters that let a promise lapse and have not asked since, as the test
  // sees it, and those that were stopped in a step that could have promised them the lock
  // and are still passed over.
  void see_late_waiters() {
    for (const auto& waiter : state.waiters) {
      if (waiter.promised_until && !has_promise(waiter, now)) {
        late_.insert(waiter.party.session);
      }
    }
  }

  void see_stopped_waiters() {
    for (const auto& waiter : state.waiters) {
      if (waiter.passed_over && liveness.is_stopped(waiter)) {
        late_.insert(waiter.party.session);
      }
    }
  }

  bool may_be_passed(const Waiter& waiter) const {
    return has_promise(waiter, now) || late_.count(waiter.party.session) > 0;
  }

  void check_fence(Fence fence) {
    EXPECT_GT(fence, greatest_fence_) << "a fence did not grow";
    EXPECT_GE(fence.number, static_cast<std::uint64_t>(now.wall.count()));
    greatest_fence_ = fence;
  }

  // A claim that was granted the lock without a promise has overtaken no waiter.
  void check_turn_of(Session who, const State& before) {
    const auto* own = waiter_of(before, who);
    if (own != nullptr && has_promise(*own, now)) return;
    for (const auto& waiter : before.waiters) {
      if (waiter.party.session == who) break;
      const auto* still = waiter_of(state, waiter.party.session);
      EXPECT_TRUE(still == nullptr || may_be_passed(*still))
          << who << " overtook " << waiter.party.session;
    }
  }

  void check_place(Session who, const Busy& busy, Queue queue, const State& before) {
    const bool has_place = queue == Queue::join || waiter_of(before, who) != nullptr;
    if (!has_place) {
      EXPECT_EQ(busy.place, 0u);
      EXPECT_EQ(waiter_of(state, who), nullptr);
      return;
    }
    ASSERT_GE(busy.place, 1u);
    ASSERT_LE(busy.place, state.waiters.size());
    EXPECT_EQ(state.waiters[busy.place - 1].party.session, who);
  }

  void check_all(const State& before, Session who) {
    check_exclusion();
    check_nobody_is_lost(before, who);
    check_promises(before, who);
    check_nothing_is_idle();
    check_nobody_waits_for_what_runs();
    check_who_is_passed_over(before);
  }

  // Only stopped waiters are passed over, and those that let a promise lapse.
  void check_who_is_passed_over(const State& before) {
    for (const auto& waiter : state.waiters) {
      const auto* earlier = waiter_of(before, waiter.party.session);
      if (!waiter.passed_over || (earlier != nullptr && earlier->passed_over)) continue;
      EXPECT_TRUE(liveness.is_stopped(waiter) || late_.count(waiter.party.session) > 0)
          << waiter.party.session << " was passed over though it runs";
    }
  }

  void check_exclusion() {
    std::set<unsigned> slots;
    unsigned shared = 0;
    for (const auto& holder : state.holders) {
      EXPECT_TRUE(liveness.is_alive(holder)) << "a dead holder is still there";
      EXPECT_TRUE(!holder.ends_at || *holder.ends_at > now.boot) << "kept for too long";
      if (holder.mode == Mode::shared) {
        ++shared;
        continue;
      }
      EXPECT_TRUE(slots.insert(holder.slot).second) << "a slot is held twice";
      EXPECT_LT(holder.slot, state.slots);
    }
    EXPECT_TRUE(slots.empty() || shared == 0) << "shared and exclusive at once";
    EXPECT_LE(slots.size(), state.slots) << "more holders than slots";
  }

  // Only the dead, and the one whose step it was, can disappear.
  void check_nobody_is_lost(const State& before, Session who) {
    for (const auto& holder : before.holders) {
      if (holder.party.session == who || !liveness.is_alive(holder)) continue;
      if (holder.ends_at && *holder.ends_at <= now.boot) continue;
      EXPECT_NE(holder_of(state, holder.party.session), nullptr) << "lost a holder";
    }
    std::vector<Session> stayed;
    for (const auto& waiter : before.waiters) {
      const auto session = waiter.party.session;
      if (waiter_of(state, session) != nullptr) {
        stayed.push_back(session);
        continue;
      }
      if (is_answered(session)) {
        EXPECT_TRUE(contains(then.wake, session)) << "was removed without being woken";
        continue;
      }
      EXPECT_TRUE(session == who || !liveness.is_alive(waiter)) << "lost a waiter";
      EXPECT_TRUE(session == who || contains(then.dead, session))
          << "was not reported as dead";
    }
    for (std::size_t i = 0; i < stayed.size(); ++i) {
      EXPECT_EQ(state.waiters.at(i).party.session, stayed[i]) << "the order changed";
    }
    for (const auto session : then.dead) {
      EXPECT_EQ(liveness.dead.count(session), 1u)
          << "a living session was reported as dead";
    }
  }

  bool is_answered(Session who) const {
    return std::any_of(state.answered.begin(), state.answered.end(),
                       [&](const AnsweredWaiter& answered) {
                         return answered.waiter.party.session == who;
                       });
  }

  void check_nobody_waits_for_what_runs() {
    const bool runs = std::any_of(state.holders.begin(), state.holders.end(),
                                  [](const Holder& h) { return h.counts && !h.ended; });
    for (const auto& waiter : state.waiters) {
      EXPECT_FALSE(runs && waiter.dedupe && !waiter.dedupe->retry_failed)
          << waiter.party.session << " waits though a run is enough";
    }
  }

  // New promises are made in order, and the waiters that got one are woken.
  void check_promises(const State& before, Session who) {
    bool in_order = true;
    for (const auto& waiter : state.waiters) {
      const auto session = waiter.party.session;
      const auto* earlier = waiter_of(before, session);
      const bool is_new =
          has_promise(waiter, now) && !(earlier != nullptr && has_promise(*earlier, now));
      if (is_new) {
        EXPECT_TRUE(in_order) << session << " was promised the lock before its turn";
        EXPECT_TRUE(liveness.is_alive(waiter)) << "promised to the dead";
        EXPECT_TRUE(!liveness.is_stopped(waiter) || is_last_but_for(who, waiter))
            << "promised to a stopped waiter";
        EXPECT_TRUE(session == who || contains(then.wake, session)) << "was not woken";
      }
      in_order = in_order && may_be_passed(waiter);
    }
  }

  // `who` may have joined the queue in the step itself.
  bool is_last_but_for(Session who, const Waiter& waiter) const {
    const auto& last = state.waiters.back();
    if (&waiter == &last) return true;
    return last.party.session == who && &waiter == &last - 1;
  }

  // If there is room for the first waiter, it has a promise.
  void check_nothing_is_idle() {
    for (const auto& waiter : state.waiters) {
      if (may_be_passed(waiter) || !liveness.is_alive(waiter)) continue;
      EXPECT_FALSE(admits(state, waiter.mode, now))
          << waiter.party.session << " waits though there is room";
      return;
    }
  }

  Kind kind_;
  Dice dice_;
  Session last_session_ = 0;
  Claim claims_[6];
  std::set<Session> late_;
  Fence greatest_fence_;
  std::size_t grants_ = 0;
  std::size_t deduplicated_ = 0;
};

class RulesModel : public ::testing::TestWithParam<Kind> {};

TEST_P(RulesModel, no_history_breaks_exclusion_order_or_fences) {
  for (unsigned seed = 1; seed <= 10 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(GetParam(), seed);

    history.run(4000);

    EXPECT_GT(history.grants(), HasFailure() ? 0u : 100u)
        << "too few grants for a useful test";
    EXPECT_EQ(history.deduplicated() > (HasFailure() ? 0u : 100u), GetParam().dedupes);
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, RulesModel, ::testing::ValuesIn(kinds), name_of);

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
