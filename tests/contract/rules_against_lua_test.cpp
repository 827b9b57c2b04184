// The rules of granting exist twice: in C++ (src/rules) and as scripts for a server. Both
// run the same random histories and have to show the same after every step.
//
// DLOCK_TEST_STEPS sets the number of steps for each kind of lock (12000 by default), and
// DLOCK_TEST_SEED the first seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/contract/random_steps.hpp"
#include "tests/contract/rules_side.hpp"
#include "tests/contract/scripts_side.hpp"

namespace dlock::against {
namespace {

constexpr Kind kinds[] = {
    {"mutex", 1, false, false, false, false},
    {"semaphore", 3, false, false, true, false},
    {"readers_and_writers", 1, true, false, true, false},
    {"runs", 1, false, true, false, false},
    {"everything", 1, true, true, true, true},
    {"runs_in_slots", 2, false, true, true, false},
    {"queue_options", 1, false, false, true, true},
    {"queue_options_in_slots", 2, false, false, true, true},
    {"force", 1, true, true, true, true, true},
    {"force_in_slots", 2, false, true, true, false, true},
    {"priorities", 1, true, true, true, true, false, true},
    {"spread", 3, false, true, true, true, false, true, true},
    {.name = "reclaims", .slots = 1, .has_runs = true, .reclaims = true},
    {.name = "reclaims_in_slots", .slots = 2, .has_detached = true, .reclaims = true}};

std::string lines(const std::string& title, const Seen& seen) {
  auto text = title + " answers: " + seen.answer + "\n";
  for (const auto& line : seen.state) text += "  " + line + "\n";
  for (const auto& event : seen.events) {
    text += "  event: " + event.text + ", free " + std::to_string(event.free) + "\n";
  }
  for (const auto who : seen.told) text += "  told: " + std::to_string(who) + "\n";
  for (const auto fence : seen.orders) {
    text += "  told to end: " + std::to_string(fence.number) + "\n";
  }
  for (const auto who : seen.handed) text += "  handed: " + std::to_string(who) + "\n";
  return text;
}

// A lock on both sides.
class History {
 public:
  History(const Kind& kind, unsigned seed, const Loaded& scripts, RulesSide::Bug bug)
      : trail_(seed),
        steps_(kind, seed),
        rules_(std::move(bug)),
        scripts_(scripts, std::string(kind.name) + std::to_string(seed)) {}

  redis::Command begin_step() { return begin(steps_.next(rules_)); }

  // At the end no new contender comes, and all that wait have to get the lock.
  redis::Command begin_last_step() {
    is_ending_ = true;
    return begin(steps_.last(rules_));
  }

  // The difference between the sides; empty if there is none.
  std::string end_step(const redis::Reply& reply) {
    Seen theirs;
    try {
      theirs = scripts_.seen(reply, step_);
    } catch (const std::exception& exception) {
      return report(exception.what());
    }
    auto ours = rules_.take(step_, steps_.contenders(), theirs.handed);
    // Only the scripts show that a lease that is set up again was over before.
    if (step_.act == Act::reclaim) ours.events.clear(), theirs.events.clear();
    // One that is set up again is the last holder of the rules; the scripts have no
    // order.
    sort_holders(ours.state), sort_holders(theirs.state);
    handed_ += theirs.handed.size();
    steps_.note(step_, ours.answer, rules_.state());
    if (is_ending_ && is_idle_for_long(ours)) {
      return report(lines("a free lock is not granted: the rules", ours));
    }
    if (ours.answer == theirs.answer && ours.state == theirs.state &&
        comparable(ours.events, rules_.dead()) ==
            comparable(theirs.events, rules_.dead()) &&
        ours.orders == theirs.orders && tells_alike(ours, theirs)) {
      return "";
    }
    return report(lines("the rules", ours) + lines("the script", theirs));
  }

  std::size_t handed() const { return handed_; }

 private:
  static void sort_holders(std::vector<std::string>& lines) {
    const auto end = std::find_if(lines.begin(), lines.end(), [](const auto& line) {
      return !line.starts_with("holder");
    });
    std::sort(lines.begin(), end);
  }

  // Both notify the waiters that are promised the lock or removed from the queue. After
  // each grant, the rules also notify the first waiter, which knows an old holder; with
  // the scripts it checks by the clock.
  bool tells_alike(const Seen& ours, const Seen& theirs) const {
    auto due = rules_.due();
    if (step_.act != Act::ask) due.insert(ours.told.begin(), ours.told.end());
    for (const auto who : due) {
      if (ours.told.count(who) == 0 || theirs.told.count(who) == 0) return false;
    }
    return true;
  }

  redis::Command begin(Step step) {
    step_ = std::move(step);
    const auto& contender = steps_.contenders()[step_.who];
    trail_.add(text_of(step_, contender));
    return scripts_.command(step_, contender);
  }

  // Whoever asks is told that it is busy, though no lease is left, and has been for more
  // asks than all those that are in the queue, or have died there, can explain.
  bool is_idle_for_long(const Seen& seen) {
    const bool is_free =
        std::none_of(seen.state.begin(), seen.state.end(),
                     [](const auto& line) { return line.starts_with("holder"); });
    const bool waits = step_.act == Act::ask && seen.answer.starts_with("busy");
    idle_asks_ = is_free ? idle_asks_ + waits : 0;
    return idle_asks_ > 2 * steps_.contenders().size();
  }

  std::string report(const std::string& what) const { return trail_.report(what); }

  Trail trail_;
  RandomSteps steps_;
  RulesSide rules_;
  ScriptsSide scripts_;
  Step step_;
  std::size_t handed_ = 0;
  std::size_t idle_asks_ = 0;
  bool is_ending_ = false;
};

// The first difference in this many steps of histories of this kind; empty if there is
// none.
std::string first_difference(ClockedServer& server, const Kind& kind, unsigned steps,
                             const Loaded& scripts, const RulesSide::Bug& bug,
                             std::size_t* handed = nullptr) {
  std::vector<History> histories;
  const auto first_seed = number_in("DLOCK_TEST_SEED", 1);
  for (unsigned i = 0; i < at_once; ++i) {
    histories.emplace_back(kind, first_seed + i, scripts, bug);
  }
  server.exchange({{"FLUSHALL"}});
  auto difference =
      against::first_difference(server, histories, steps / at_once,
                                [](auto& history) { return history.begin_step(); });
  if (difference.empty()) {  // leases whose holder is dead last for 200 s
    difference = against::first_difference(
        server, histories, 100, [](auto& history) { return history.begin_last_step(); });
  }
  if (!difference.empty()) return kind.name + (", " + difference);
  for (const auto& history : histories) {
    if (handed != nullptr) *handed += history.handed();
  }
  return "";
}

class RulesAgainstLua : public ::testing::TestWithParam<Kind> {
 protected:
  ClockedServer server_;
};

TEST_P(RulesAgainstLua, both_sides_show_the_same_after_every_step) {
  const auto scripts = load_scripts(server_);
  const auto steps = number_in("DLOCK_TEST_STEPS", 12'000);

  const auto difference = first_difference(server_, GetParam(), steps, scripts, {});

  EXPECT_TRUE(difference.empty()) << difference;
}

// Single histories that once found a difference, and that had to be long.
TEST(OneHistory, is_the_same_on_both_sides_where_it_once_differed) {
  ClockedServer server;
  const auto scripts = load_scripts(server);
  struct {
    const Kind& kind;
    unsigned seed, steps;
  } const histories[] = {{kinds[3], 1027, 3'200}, {kinds[4], 1042, 1'700}};
  for (const auto& of : histories) {
    History history(of.kind, of.seed, scripts, {});
    std::string difference;
    for (unsigned step = 0; step < of.steps && difference.empty(); ++step) {
      difference = history.end_step(server.exchange({history.begin_step()})[0]);
    }

    EXPECT_EQ(difference, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RulesAgainstLua, ::testing::ValuesIn(kinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

const auto& [mutex, semaphore, readers, runs, everything, runs_in_slots, queue_options,
             queue_options_in_slots, force, force_in_slots, priorities, spread, reclaims,
             reclaims_in_slots] = kinds;

// Bugs in the scripts, and the kinds of locks that show them.
struct BugInScripts {
  const Kind& kind;
  Replacement replaced;
};
const BugInScripts bugs_in_scripts[] = {
    {readers, {"then break end\n      return false", "then break end"}},
    {priorities, {"if priority_of(w) > priority then break end", ""}},
    {priorities, {"return arrival + priority * PRIORITY_STEP end", "return arrival end"}},
    {spread, {"elseif slots > 1 and is_crowded(w.info) then", "elseif false then"}},
    {spread, {"if spreads and is_crowded(info) then return false end", ""}},
    {spread, {"if own and spreads and is_crowded(info, true) then", "if false then"}},
    {readers, {"return shared == 0 and exclusive < wanted", "return exclusive < wanted"}},
    {semaphore, {"while taken[slot] do slot = slot + 1 end", ""}},
    {mutex, {"w.passed, w.called = false, false", "w.called = false"}},
    {runs, {"< tonumber(window) * 1000", "<= tonumber(window) * 1000 + 200000"}},
    {runs_in_slots, {"kept = ends > now and not own.broken", "kept = ends > now"}},
    {runs, {"h.ended and 'released' or 'expired'", "'expired'"}},
    {semaphore,
     {"if token ~= self then\n        wake(w)\n        promised",
      "if token ~= self then\n        promised"}},
    {queue_options,
     {"if w.until_ > now and not w.passed and not", "if w.until_ > now and not"}},
    {queue_options, {"if replacers then take_if_replaced(token, h) end", ""}},
    {queue_options, {"forget(newest)", "remove_waiter(newest)"}},
    {queue_options, {"taker, first = w.info, place", "taker, first = info, place"}},
    {semaphore, {"if shown then h.info =", "if not shown then h.info ="}},
    {mutex, {"if refuse then count('refused') end", ""}},
    {queue_options, {"if is_refused then count", "if refuse then count"}},
    {queue_options,
     {"if w.until_ > now then count('superseded') end", "count('superseded')"}},
    {queue_options,
     {"if counted and not (supersedes and other == newest) then", "if counted then"}},
    // Where scripts end early.
    {mutex, {"state[9] and state[9] == state[1]", "state[9]"}},
    {mutex, {"if is_usual and not head[1] and", "if is_usual and"}},
    {mutex, {"or value == token then return false", "then return false"}},
    {queue_options, {"if replaces or not single or", "if not single or"}},
    {readers, {"is_usual = mode == 'x' and", "is_usual ="}},
    {mutex, {"leave_queue()\n  local h", "local h"}},
    {queue_options, {"not dedupes and not replacers\n", "not dedupes\n"}},
    {runs, {"not reclaimed and not dedupes and", "not reclaimed and"}},
    {runs, {"note_run(h, 0, h.info, 'none')", "note_run(h, 0, h.info, 'failed')"}},
    {everything, {"if not has_come_to_nothing(left_for) then return", "do return"}},
    {force, {"if h.broken and not is_forced then", "if h.broken then"}},
    {force, {"note_run(h, now, h.info, 'none')", "note_run(h, 0, h.info, 'none')"}},
    {force, {"return forced_answer(own_fence) or taken", "return taken"}},
    {force, {"if forced then ended =", "if not forced and false then ended ="}},
    {force, {"if ARGV[3] == '1' and own", "if false and own"}},
    {force, {"ends = math.max(ends, lease_ends)", "ends = math.max(ends, now + 1000)"}},
};

using Spoiled = RulesSide::Spoiled;

void newcomers_overtake(Spoiled spoiled) {
  auto& waiters = spoiled.state.waiters;
  if (waiters.size() <= spoiled.before.waiters.size()) return;
  std::rotate(waiters.begin(), waiters.end() - 1, waiters.end());
}
void priorities_do_not_matter(Spoiled spoiled) {
  std::stable_sort(
      spoiled.state.waiters.begin(), spoiled.state.waiters.end(),
      [](const auto& one, const auto& other) { return one.queued_at < other.queued_at; });
}
void nobody_is_told(Spoiled spoiled) { spoiled.wake.clear(); }
void nobody_is_passed_over(Spoiled spoiled) {
  for (auto& waiter : spoiled.state.waiters) waiter.passed_over = false;
}
void ends_are_forgotten(Spoiled spoiled) { spoiled.state.past = {}; }
void the_broken_are_not_marked(Spoiled spoiled) {
  for (auto& holder : spoiled.state.holders) holder.broken = false;
}
void no_lock_stays_held(Spoiled spoiled) {
  std::erase_if(spoiled.state.holders, [](const auto& holder) { return holder.ended; });
}
void the_superseded_stay(Spoiled spoiled) {
  auto& state = spoiled.state;
  for (const auto& answered : state.answered) {
    const auto& token = answered.waiter.party.token;
    const bool stays = rules::waiter_of(state, token) == state.waiters.end();
    if (answered.newer && stays) state.waiters.push_back(answered.waiter);
  }
}
void nobody_loses_the_lock_at_its_grant(Spoiled spoiled) {
  if (spoiled.step.act != Act::ask) return;
  for (auto& holder : spoiled.state.holders) {
    const bool is_new =
        std::none_of(spoiled.before.holders.begin(), spoiled.before.holders.end(),
                     [&](const auto& former) { return former.fence == holder.fence; });
    if (is_new) holder.broken = false;
  }
}
void leases_last_a_little_longer(Spoiled spoiled) {
  for (auto& holder : spoiled.state.holders) {
    if (holder.lives_until) *holder.lives_until += milliseconds(1);
  }
}
void places_last_for_good(Spoiled spoiled) {
  for (auto& waiter : spoiled.state.waiters) {
    waiter.lives_until = Clock::time_point::max();
  }
}
void no_lease_is_left(Spoiled spoiled) {
  if (!spoiled.step.end || !spoiled.step.end->leaves_lease) return;
  std::erase_if(spoiled.state.holders, [](const auto& holder) { return holder.ended; });
}
void none_is_set_up_again(Spoiled spoiled) {
  if (spoiled.step.act == Act::reclaim) spoiled.state = spoiled.before;
}
struct BugInRules {
  const char* name;
  const Kind& kind;
  void (*bug)(Spoiled);
};
const BugInRules bugs_in_rules[] = {
    {"newcomers_overtake", mutex, newcomers_overtake},
    {"priorities_do_not_matter", priorities, priorities_do_not_matter},
    {"nobody_is_told", mutex, nobody_is_told},
    {"nobody_is_passed_over", mutex, nobody_is_passed_over},
    {"ends_are_forgotten", runs, ends_are_forgotten},
    {"the_broken_are_not_marked", semaphore, the_broken_are_not_marked},
    {"no_lock_stays_held", runs, no_lock_stays_held},
    {"the_superseded_stay", queue_options, the_superseded_stay},
    {"nobody_loses_the_lock_at_its_grant", queue_options,
     nobody_loses_the_lock_at_its_grant},
    {"leases_last_a_little_longer", mutex, leases_last_a_little_longer},
    {"places_last_for_good", mutex, places_last_for_good},
    {"no_lease_is_left", force, no_lease_is_left},
    {"none_is_set_up_again", reclaims, none_is_set_up_again}};

class BugsOfOneSide : public ::testing::Test {
 protected:
  static constexpr unsigned few = 6'400;
  static constexpr unsigned most = 32'000;  // enough for rare events to happen

  ClockedServer server_;
};

TEST_F(BugsOfOneSide, one_in_the_scripts_is_found) {
  for (const auto& bug : bugs_in_scripts) {
    const auto scripts = load_scripts(server_, bug.replaced);

    const auto difference = first_difference(server_, bug.kind, most, scripts, {});

    EXPECT_FALSE(difference.empty()) << bug.replaced.find;
  }
}

TEST_F(BugsOfOneSide, one_in_the_rules_is_found) {
  const auto scripts = load_scripts(server_);
  for (const auto& bug : bugs_in_rules) {
    const auto difference = first_difference(server_, bug.kind, few, scripts, bug.bug);

    EXPECT_FALSE(difference.empty()) << bug.name;
  }
}

// Otherwise the immediate hand-off would never be compared.
TEST_F(BugsOfOneSide, locks_are_handed_over_without_a_promise_in_these_histories) {
  std::size_t handed = 0;

  first_difference(server_, mutex, few, load_scripts(server_), {}, &handed);

  EXPECT_GT(handed, 0u);
}

}  // namespace
}  // namespace dlock::against
