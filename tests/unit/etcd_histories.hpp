// Random histories of one lock, taken by the rules of src/rules on their own state,
// and by what a claimant of etcd decides and writes.
//
// The two differ on purpose in some ways, which are evened out or left out here:
//
// - A promise in etcd is the position in the queue and does not lapse, so neither do
// those
//   of the rules: the boot time stands still, only the wall time passes.
// - A waiter for which a run counts leaves the queue of etcd when it notices. It
//   therefore asks right after the step, before another step could make it wait again.
// - An entry of etcdctl holds the lock once it is the first, without asking.
// - Whoever gets no place in the queue gives up.
// - Dead parties vanish at once, as their entries do.
// - The last success that counts for no waiter is remembered by etcd for longer.
// - A claim that replaces a holder takes the lock from etcdctl in the same step if that
//   gets it, so no history has both.
// - The order of holders, and that of the events of one step, is not compared.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lock/history.hpp"
#include "rules/look.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::etcd::histories {

using rules::Session;

enum class Act { ask, release, check, die, take_away, foreign_comes, inspect };

// One who asks, waits, holds and ends. A new one then takes its place.
struct Contender {
  Session number = 0;
  Claim claim;           // without outer fences, which differ on the two sides
  Session outer = 0;     // the contender in whose run it is nested; 0: none
  bool foreign = false;  // etcdctl
  bool was_granted = false;
  bool knows_loss = false;
};

struct Step {
  Act act = Act::inspect;
  WallTime now{};
  Queue queue = Queue::join;
  std::optional<RunEnd> end;
  std::vector<Session> meant;  // whose leases are broken
  bool by_force = false;
};

// What a side shows after a step.
struct Seen {
  std::string answer;
  std::vector<std::string> state;
  std::vector<std::string> events;
  std::set<Session> told;  // notified that they should ask now
};

inline const LockName& lock_of_history() {
  static const LockName lock{"dlock", "job"};
  return lock;
}

inline std::string name_of(pid_t pid) {
  return pid == 0 ? "etcdctl" : std::to_string(pid - 1000);
}

inline std::string text_of_holder(const HolderInfo& info) {
  return "holder " + name_of(info.pid) + " in " + std::to_string(info.slot) +
         (info.foreign ? " foreign" : "") + (info.attached ? " attached" : "") +
         (info.run_ended ? " ended" : "") + (info.broken ? " broken" : "") + " " +
         info.label;
}

inline std::string sorted_text(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& line : lines) text += "\n  " + line;
  return text;
}

inline std::string text_of_holders(const std::vector<HolderInfo>& holders) {
  std::vector<std::string> lines;
  for (const auto& holder : holders) lines.push_back(text_of_holder(holder));
  return sorted_text(std::move(lines));
}

// Fences are named by their contenders, because each side has its own.
class Side {
 public:
  virtual ~Side() = default;
  virtual Seen take(const Step& step, Contender& contender) = 0;

 protected:
  std::string name_of(Fence fence) const {
    const auto found = std::find_if(fences_.begin(), fences_.end(),
                                    [&](const auto& one) { return one.second == fence; });
    return found == fences_.end() ? "none" : std::to_string(found->first);
  }

  std::vector<Fence> fences_of(const std::vector<Session>& contenders) const {
    std::vector<Fence> fences;
    for (const auto one : contenders) {
      const auto found = fences_.find(one);
      fences.push_back(found == fences_.end() ? Fence{} : found->second);
    }
    return fences;
  }

  Claim claim_of(const Contender& contender) const {
    auto claim = contender.claim;
    if (contender.outer != 0) claim.outer_fences = fences_of({contender.outer});
    return claim;
  }

  std::string text_of(const RunInfo& run) const {
    auto text = "run of " + name_of(run.fence) + " " + run.outcome;
    if (run.exit_code) text += " " + std::to_string(*run.exit_code);
    const bool is_forced = forced_by(run).has_value();
    return text + (is_forced ? " by force" : " " + run.reason) +
           (run.counts ? " counts" : "");
  }

  std::string text_of(const std::vector<RunInfo>& runs) const {
    constexpr std::size_t most = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, runs.size()); ++i) {
      text += "\n  " + text_of(runs[i]);
    }
    return text;
  }

  std::string text_of(const std::optional<Taker>& taker) const {
    if (!taker) return "";
    return std::string(" taken") + (taker->replaces ? " replacing" : "") +
           (taker->forced ? " by force" : "");
  }

  std::string text_of(const Answer& answer) const {
    if (const auto* grant = std::get_if<Grant>(&answer)) {
      return "granted in " + std::to_string(grant->slot) +
             (grant->broken ? " broken" : "");
    }
    if (const auto* above = std::get_if<HeldByOuterRun>(&answer)) {
      return "above " + name_of(above->fence);
    }
    if (const auto* differ = std::get_if<SlotsDiffer>(&answer)) {
      return "slots " + std::to_string(differ->in_use);
    }
    if (const auto* by = std::get_if<Deduplicated>(&answer)) {
      return "deduplicated by " + text_of(by->by);
    }
    if (const auto* by = std::get_if<Superseded>(&answer)) {
      return "superseded by " + histories::name_of(by->pid);
    }
    const auto& busy = std::get<Busy>(answer);
    return "busy " + std::to_string(busy.place) + " among " +
           std::to_string(busy.queued) + text_of_holders(busy.holders);
  }

  std::string text_of(const LockInfo& info) const {
    auto text = std::string(info.mode == Mode::shared ? "shared" : "exclusive") + " of " +
                std::to_string(info.slots) + ", free " + std::to_string(info.free) +
                ", refused " + std::to_string(info.refused) + ", superseded " +
                std::to_string(info.superseded) + text_of_holders(info.holders);
    for (const auto& waiter : info.waiters) {
      text += "\n  waiter " + histories::name_of(waiter.pid);
    }
    if (info.last_success && info.last_success->counts)
      text += "\n  success: " + text_of(*info.last_success);
    return text;
  }

  std::string text_of(const Event& event) const {
    auto text = std::string(event_name(event.kind)) + " " +
                histories::name_of(event.pid) + text_of(event.taken_by);
    return event.run ? text + ": " + text_of(*event.run) : text;
  }

  // In the words of the rules.
  std::vector<std::string> shown(const rules::State& state,
                                 const std::function<std::string(const Token&)>& name,
                                 rules::Moment now) const {
    std::vector<std::string> lines;
    for (const auto& holder : state.holders) {
      auto line = text_of_holder(rules::info_of(holder, now));
      if (holder.mode == Mode::shared) line += " shared";
      lines.push_back(line + (holder.counts ? " counts" : ""));
    }
    std::sort(lines.begin(), lines.end());
    for (const auto& waiter : state.waiters) {
      lines.push_back("waiter " + name(waiter.party.token) +
                      (waiter.mode == Mode::shared ? " shared" : "") +
                      (waiter.promised_until ? " promised" : ""));
    }
    const auto is_own = [](const auto& one) { return !one.party.foreign; };
    const bool in_use = std::any_of(state.holders.begin(), state.holders.end(), is_own) ||
                        std::any_of(state.waiters.begin(), state.waiters.end(), is_own);
    if (in_use) lines.push_back("slots " + std::to_string(state.slots));
    lines.push_back("refused " + std::to_string(state.refused));
    lines.push_back("superseded " + std::to_string(state.superseded));
    return lines;
  }

  std::map<Session, Fence> fences_;  // of the last grant of each
};

}  // namespace dlock::etcd::histories
