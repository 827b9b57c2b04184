// Takes a random history on both sides, and compares what they show.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/unit/etcd_client_model.hpp"
#include "tests/unit/etcd_rules_side.hpp"
#include "tests/unit/etcd_side.hpp"

namespace dlock::etcd::histories {

// What the claims of a history have in common.
struct LockKind {
  const char* name;
  unsigned slots = 1;
  bool has_readers = false;
  bool has_runs = false;  // some use --dedupe or --min-hold
  bool has_detached = false;
  bool has_queue_options = false;
  bool has_force = false;
  bool has_foreign = false;
};
inline constexpr LockKind lock_kinds[] = {
    {.name = "mutex", .has_foreign = true},
    {.name = "semaphore", .slots = 3, .has_detached = true},
    {.name = "readers", .has_readers = true, .has_detached = true, .has_foreign = true},
    {.name = "runs", .has_runs = true, .has_force = true},
    {.name = "runs_in_slots", .slots = 2, .has_runs = true, .has_detached = true},
    {.name = "queue_options", .has_detached = true, .has_queue_options = true},
    {.name = "queue_options_in_slots",
     .slots = 2,
     .has_queue_options = true,
     .has_force = true},
    {.name = "everything",
     .has_readers = true,
     .has_runs = true,
     .has_detached = true,
     .has_queue_options = true,
     .has_force = true}};

class History {
 public:
  History(const LockKind& kind, unsigned seed, Transactions& etcd, const LockName& lock,
          std::int64_t first_lease, SpoilsState spoils_state, SpoilsEtcd spoils_etcd)
      : kind_(kind),
        seed_(seed),
        dice_(seed),
        rules_(std::move(spoils_state)),
        etcd_(etcd, lock, first_lease, std::move(spoils_etcd)),
        contenders_(at_a_time) {
    for (auto& contender : contenders_) replace(contender);
  }

  // The difference after the next step; empty if there is none.
  std::string take_step() {
    ++taken_;
    now_ += std::chrono::milliseconds(dice_.one_in(5) ? dice_.below(4000) : 1);
    events_of_rules_.clear();
    events_of_etcd_.clear();
    auto& contender = contenders_[dice_.below(at_a_time)];
    const auto step = next_step(contender);
    auto difference = take(step, contender);
    // Whoever was answered asks at once.
    while (difference.empty() && !rules_.state().answered.empty()) {
      const auto who = rules_.state().answered.front().waiter.party.session;
      if (!etcd_.wakes(who, {})) return report("not woken: " + text_of(who));
      Step asks;
      asks.act = Act::ask;
      asks.now = now_;
      difference = take(asks, *find(who));
    }
    if (!difference.empty()) return difference;
    return compare_after_step();
  }

 private:
  static constexpr unsigned at_a_time = 6;

  static std::string text_of(Session who) { return std::to_string(who); }

  Contender* find(Session who) {
    const auto found =
        std::find_if(contenders_.begin(), contenders_.end(),
                     [&](const Contender& one) { return one.number == who; });
    return found == contenders_.end() ? nullptr : &*found;
  }

  void replace(Contender& contender) {
    contender = {};
    contender.number = ++last_number_;
    auto& claim = contender.claim;
    claim = rules::exclusive(contender.number);
    claim.lock = lock_of_history();
    claim.on_behalf_of = static_cast<pid_t>(1000 + contender.number);
    claim.label = "label";
    contender.foreign = kind_.has_foreign && dice_.one_in(6);
    if (contender.foreign) return;
    if (kind_.has_readers && dice_.below(3) > 0) {
      claim.mode = Mode::shared;
    } else {
      claim.slots = dice_.one_in(30) ? 2 : kind_.slots;
    }
    claim.attached = !(kind_.has_detached && dice_.one_in(3));
    const bool is_mutex = claim.mode == Mode::exclusive && claim.slots == 1;
    if (kind_.has_runs && is_mutex && claim.attached && dice_.one_in(2)) {
      claim.dedupe = Dedupe{milliseconds(dice_.below(6000)), dice_.one_in(3)};
      claim.dedupe->joins = !claim.dedupe->retry_failed && dice_.one_in(4);
    }
    if (kind_.has_runs && claim.attached && dice_.one_in(4)) {
      claim.min_hold = milliseconds(1000);
    }
    if (kind_.has_queue_options) {
      claim.supersedes = dice_.one_in(3);
      claim.replaces = claim.attached && dice_.one_in(4);
      if (dice_.one_in(5)) claim.max_queue = dice_.below(3);
    }
    const auto& holders = rules_.state().holders;
    if (holders.empty() || !dice_.one_in(8)) return;
    const auto& outer = holders[dice_.below(static_cast<unsigned>(holders.size()))];
    if (outer.party.foreign || outer.ended) return;
    contender.outer = rules::number_of(outer.party.token);
  }

  Step next_step(Contender& contender) {
    Step step;
    step.now = now_;
    if (contender.foreign) {
      const bool is_there = contender.was_granted;
      step.act = is_there ? Act::die : Act::foreign_comes;
      contender.was_granted = true;
      if (is_there && !dice_.one_in(3)) step.act = Act::inspect;
      return step;
    }
    if (dice_.one_in(7)) {
      step.act = dice_.one_in(2) ? Act::inspect : Act::take_away;
      if (step.act == Act::inspect) return step;
      step.by_force = kind_.has_force && dice_.one_in(2);
      for (const auto& holder : rules_.state().holders) {
        // A fence that no holder has would be that of etcdctl.
        if (dice_.one_in(2) && !holder.party.foreign && !holder.ended) {
          step.meant.push_back(rules::number_of(holder.party.token));
        }
      }
      return step;
    }
    if (!kept_.empty() && dice_.one_in(6)) {
      ended_ = kept_.front();
      kept_.pop_front();
      step.act = Act::die;
      contender_of_step_ = &ended_;
      return step;
    }
    if (!contender.was_granted) {
      const auto chance = dice_.below(20);
      step.act = chance < 2 ? Act::release : chance == 2 ? Act::die : Act::ask;
      const auto out = dice_.one_in(2) ? Queue::refuse : Queue::stay_out;
      step.queue = dice_.one_in(6) ? out : Queue::join;
      return step;
    }
    const auto chance = dice_.below(12);
    step.act = chance < 1                            ? Act::die
               : chance < 2 && !contender.knows_loss ? Act::ask
               : chance < 6                          ? Act::check
                                                     : Act::release;
    if (step.act == Act::ask && !holds(contender)) step.act = Act::check;
    if (step.act == Act::release) step.end = random_end(contender);
    return step;
  }

  bool holds(const Contender& contender) const {
    const auto& holders = rules_.state().holders;
    return std::any_of(holders.begin(), holders.end(), [&](const auto& holder) {
      return !holder.ended && holder.party.token == contender.claim.token;
    });
  }

  std::optional<RunEnd> random_end(const Contender& contender) {
    constexpr int codes[] = {0, 0, 1, 127};
    if (!contender.claim.attached) return std::nullopt;
    RunEnd end;
    end.duration = milliseconds(1500);
    end.exit_code = codes[dice_.below(4)];
    end.outcome = "ran";
    if (contender.knows_loss ||
        (contender.claim.min_hold.count() == 0 && dice_.one_in(12))) {
      end.lost = Loss::unconfirmed;
      end.exit_code = 76;
      end.outcome = "lost";
    } else if (dice_.one_in(8) && holds(contender)) {
      return std::nullopt;
    } else {
      end.is_shared = dice_.one_in(3);
    }
    return end;
  }

  // Takes the step on both sides; the difference of the answers.
  std::string take(const Step& step, Contender& chosen) {
    auto& contender = contender_of_step_ != nullptr ? *contender_of_step_ : chosen;
    contender_of_step_ = nullptr;
    note(step, contender);
    auto on_etcd = contender;  // which learns of a grant by itself
    ours_ = rules_.take(step, contender);
    theirs_ = etcd_.take(step, on_etcd);
    add(events_of_rules_, ours_.events);
    add(events_of_etcd_, theirs_.events);
    if (ours_.answer != theirs_.answer) return report("answers differ");
    follow(step, contender);
    return "";
  }

  static void add(std::vector<std::string>& to, const std::vector<std::string>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  // Who is over, or knows of its loss, after this answer.
  void follow(const Step& step, Contender& contender) {
    const auto& answer = ours_.answer;
    if (&contender == &ended_) return;
    const bool gives_up = step.act == Act::ask && !answer.starts_with("granted") &&
                          (!answer.starts_with("busy") || answer.starts_with("busy 0"));
    const bool is_released =
        step.act == Act::release && (answer == "released" || answer == "not ours");
    if (step.act == Act::release && !is_released) contender.knows_loss = true;
    if (is_released && answer == "released" && step.end &&
        contender.claim.min_hold.count() > 0 && !step.end->lost) {
      kept_.push_back(contender);
    }
    if (gives_up || is_released || step.act == Act::die) replace(contender);
  }

  std::string compare_after_step() {
    std::sort(events_of_rules_.begin(), events_of_rules_.end());
    std::sort(events_of_etcd_.begin(), events_of_etcd_.end());
    if (ours_.state != theirs_.state) return report("states differ");
    if (events_of_rules_ != events_of_etcd_) return report("events differ");
    std::set<Session> promised;
    for (const auto& waiter : rules_.state().waiters) {
      if (waiter.promised_until) promised.insert(waiter.party.session);
    }
    for (const auto who : ours_.told) {
      const bool is_over = find(who) == nullptr;
      if (!is_over && !etcd_.wakes(who, promised))
        return report("not woken: " + text_of(who));
    }
    return "";
  }

  void note(const Step& step, const Contender& contender) {
    constexpr const char* names[] = {"ask",   "release",       "check",  "die",
                                     "break", "etcdctl comes", "inspect"};
    const auto& claim = contender.claim;
    auto text = std::string(names[static_cast<int>(step.act)]) + " by " +
                text_of(contender.number) + (contender.foreign ? " etcdctl" : "") +
                (claim.mode == Mode::shared ? " shared" : "") + " of " +
                std::to_string(claim.slots) + (claim.attached ? "" : " detached") +
                (claim.supersedes ? " supersedes" : "") +
                (claim.replaces ? " replaces" : "");
    if (claim.dedupe) {
      text += " dedupe " + std::to_string(claim.dedupe->window.count()) +
              (claim.dedupe->joins          ? " joins"
               : claim.dedupe->retry_failed ? " retries"
                                            : "");
    }
    if (claim.max_queue) text += " max queue " + std::to_string(*claim.max_queue);
    if (claim.min_hold.count() > 0) text += " min hold";
    if (contender.outer != 0) text += " inside " + text_of(contender.outer);
    if (step.queue != Queue::join) text += " without waiting";
    if (step.end) text += " ended with " + std::to_string(*step.end->exit_code);
    if (step.end && step.end->is_shared) text += " shared";
    if (step.by_force) text += " by force";
    for (const auto who : step.meant) text += " of " + text_of(who);
    if (last_.size() == 20) last_.pop_front();
    last_.push_back(std::move(text));
  }

  std::string report(const std::string& what) const {
    auto text = std::string(kind_.name) + ", seed " + text_of(seed_) + ", step " +
                std::to_string(taken_) + ": " + what + "\n";
    for (const auto& step : last_) text += "  " + step + "\n";
    const auto lines = [&](const std::string& title, const Seen& seen,
                           const std::vector<std::string>& events) {
      text += title + ": " + seen.answer + "\n";
      for (const auto& line : seen.state) text += "  " + line + "\n";
      for (const auto& event : events) text += "  event: " + event + "\n";
    };
    lines("the rules", ours_, events_of_rules_);
    lines("etcd", theirs_, events_of_etcd_);
    return text;
  }

  const LockKind& kind_;
  unsigned seed_;
  Dice dice_;
  WallTime now_{std::chrono::seconds(1'700'000'000)};
  Session last_number_ = 0;
  RulesSide rules_;
  EtcdSide etcd_;
  std::vector<Contender> contenders_;
  std::deque<Contender> kept_;  // whose run is over, and whose lock is still held
  Contender ended_;
  Contender* contender_of_step_ = nullptr;
  Seen ours_;
  Seen theirs_;
  std::vector<std::string> events_of_rules_;
  std::vector<std::string> events_of_etcd_;
  std::deque<std::string> last_;
  std::size_t taken_ = 0;
};

}  // namespace dlock::etcd::histories
