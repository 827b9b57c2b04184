#include "supervise/ladder.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>

namespace dlock {
namespace {

// From TERM to KILL once the lease is no longer renewed: all is over within a second.
constexpr milliseconds orphan_grace{700};

}  // namespace

Ended ended_with(int wait_status) {
  Ended ended;
  if (WIFSIGNALED(wait_status)) {
    ended.signal = WTERMSIG(wait_status);
  } else {
    ended.exit_code = WEXITSTATUS(wait_status);
  }
  return ended;
}

Ladder::Ladder(const SupervisionPlan& plan, Clock::time_point started) : plan_(plan) {
  if (plan.timeout) ends_at_ = later(started, *plan.timeout);
}

void Ladder::forwarded(int signal, Clock::time_point now) {
  if (signal == SIGTERM && plan_.kill_after_forwarded) {
    kill_by(later(now, plan_.kill_after));
  }
}

void Ladder::lease_lost(Loss loss, Clock::time_point now) {
  if (lost_) return;
  lost_ = loss;
  // Another claim may already hold the lock: less patience than with a timeout.
  const auto grace = plan_.lease ? plan_.lease->certain_loss_grace()
                                 : std::min(plan_.kill_after, longest_certain_loss_grace);
  kill_by(later(now, grace));
}

void Ladder::owner_gone(Clock::time_point now) {
  owner_gone_ = true;
  kill_by(later(now, std::min(plan_.kill_after, orphan_grace)));
}

// max() if the lease does not expire.
Clock::time_point Ladder::before_deadline(milliseconds span) const {
  const bool can_expire = plan_.lease && deadline_ != Clock::time_point::max();
  return can_expire ? deadline_ - span : Clock::time_point::max();
}

// When the tree must be stopped although the lease may still be renewed.
Clock::time_point Ladder::in_doubt_at() const {
  return lost_ || !plan_.lease
             ? Clock::time_point::max()
             : before_deadline(plan_.lease->margin() + plan_.lease->grace());
}

Clock::time_point Ladder::kills_at() const {
  return plan_.lease ? std::min(kill_at_, before_deadline(plan_.lease->margin()))
                     : kill_at_;
}

Ladder::Action Ladder::next(Clock::time_point now) {
  // First of all: if this process was stopped, it notices the end of the command late,
  // and it is unknown whether the command outlived its lease.
  if (is_in_doubt(now)) {
    // A renewal may still succeed, but the run is lost permanently.
    lost_ = Loss::unconfirmed;
    kill_by(later(now, plan_.lease->grace()));
  }
  if (command_ended_ && (!needs_tree() || tree_is_empty_)) return Action::done;
  const bool is_told = sent_term_;
  if (!sent_term_) {
    // The run is over when no process is left that it waits for.
    const bool runs = !command_ended_ || plan_.stragglers == Stragglers::wait;
    timed_out_ = runs && now >= ends_at_;
    const bool kill_rest = command_ended_ && plan_.stragglers == Stragglers::kill;
    sent_term_ = timed_out_ || lost_ || kill_rest || owner_gone_;
    if (sent_term_) kill_by(later(now, plan_.kill_after));
  }
  // This late (after a stop, or a suspend) there is no time for TERM.
  const bool is_late = plan_.lease && now >= before_deadline(plan_.lease->margin());
  if (sent_term_ && !is_told && !is_late) return Action::send_term;
  if (now < kills_at()) return Action::wait;
  sent_term_ = true;
  return Action::send_kill;
}

Clock::time_point Ladder::next_check(Clock::time_point now) const {
  const auto kill_at = kills_at();
  if (now >= kill_at) return now + sweep_again;
  if (sent_term_) return std::min(kill_at, in_doubt_at());
  return std::min({kill_at, ends_at_, in_doubt_at()});
}

}  // namespace dlock
