// Run: determines the outcome and its messages.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "cli/args/nesting.hpp"
#include "cli/run/one_run.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/show/lock_view.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock {

std::string Run::release_step(const std::optional<RunEnd>& end) const {
  if (!end || !result_.ran || *result_.ran >= claimant_->claim().min_hold ||
      !store_->protects())
    return "released";
  return "released, and held until " + for_people(claimant_->claim().min_hold) +
         " after its grant";
}

// When a lease that was not released ends in the store.
Clock::time_point Run::lease_end() const {
  return later(result_.grant->deadline, timing_.drift() + claimant_->claim().lock_delay);
}

// What happens to a lock that could not be released.
std::string Run::how_it_ends() const {
  if (!store_->leases_expire()) return "it is released when this process exits";
  const auto left = lease_end() - Clock::now();
  return "its lease expires in " + for_people(std::max(left, Clock::duration(0)));
}

// `why` the lock was not released, unless it was left on purpose.
void Run::warn_of_lease_left(const std::string& why) const {
  const auto what = leaves_lease() ? "not releasing the lock because of --lock-delay"
                                   : "cannot release the lock: " + why;
  speaker_.warning(what + "; " + how_it_ends());
}

void Run::conclude(Outcome outcome, ExitStatus status, const std::string& message) {
  result_.outcome = outcome;
  result_.exit_code = code_of(status);
  result_.signal.reset();
  result_.message = message;
}

void Run::not_obtained(const Answer& answer) {
  auto message = refusal_text(answer, claimant_->claim().slots);
  if (std::holds_alternative<SlotsDiffer>(answer)) {
    conclude(Outcome::error, ExitStatus::misconfigured, message);
    speaker_.error(message);
    return;
  }
  if (std::holds_alternative<Deduplicated>(answer)) {
    conclude(Outcome::deduplicated, ExitStatus::success, message);
    speaker_.step("skipped: " + message);
    return;
  }
  const bool superseded = std::holds_alternative<Superseded>(answer);
  if (const auto* busy = std::get_if<Busy>(&answer)) {
    if (!busy->holders.empty()) result_.holder = busy->holders.front();
    const bool has_place = busy->place > 0;
    if (options_.wait && options_.max_queue && !has_place &&
        busy->queued >= *options_.max_queue) {
      message += "; " + std::to_string(busy->queued) + " already waiting (--max-queue)";
    }
  }
  conclude(superseded ? Outcome::superseded : Outcome::busy, ExitStatus::not_obtained,
           message);
  result_.exit_code = options_.conflict_exit_code;
  if (options_.conflict_exit_code == 0) return;
  speaker_.warning(message + (options_.wait ? "" : queue_hint(answer)));
}

void Run::failed(const Failure& failure) {
  if (failure.kind() == Failure::Kind::interrupted)
    return;  // a signal ends dlock; no message
  const bool absent = failure.kind() == Failure::Kind::unreachable;
  conclude(absent ? Outcome::unavailable : Outcome::error, status_of(failure.kind()),
           failure.what());
  wakeup_.give_up(true);  // the store timeout is used up
  speaker_.error(failure.what());
}

void Run::interrupted(int signal) {
  wakeup_.give_up(true);  // do not wait for the store any longer
  result_ = RunResult{};
  result_.outcome = Outcome::interrupted;
  result_.signal = signal;
  result_.message = "interrupted by SIG" + signal_name(signal);
}

// A waiter behind us took the lock in the same step in which it was granted.
void Run::taken_at_once() {
  result_.reason = Loss::broken;
  const auto taker = claimant_->taken_by();
  conclude(Outcome::lost, ExitStatus::lost,
           "lost the lock (broken) before the command could start: " +
               (taker ? taker_text(*taker) : "another run waits to replace this one"));
  speaker_.error(result_.message);
}

void Run::not_started(const SpawnFailure& failure) {
  if (failure.kind == SpawnFailure::Kind::too_late) {
    const auto taker = claimant_->taken_by();
    const bool is_taken = failure.loss == Loss::broken && taker;
    result_.reason = failure.loss;
    result_.is_protected = false;
    conclude(Outcome::lost, ExitStatus::lost,
             failure.message + (is_taken ? ": " + taker_text(*taker) : ""));
    speaker_.error(result_.message);
    return;
  }
  conclude(Outcome::not_started, status_of(failure.kind), failure.message);
  speaker_.error(failure.message);
}

// If renewals failed when the command ended: since the first one after the last that was
// confirmed.
std::optional<FailedRenewals> Run::failed_renewals() const {
  if (!why_not_renewed_ || !result_.grant) return std::nullopt;
  const auto asked_at =
      result_.grant->deadline - (timing_.ttl() - timing_.drift() - timing_.renew_every());
  const auto lasted = std::chrono::duration_cast<milliseconds>(ended_at_ - asked_at);
  if (lasted.count() <= 0) return std::nullopt;
  return FailedRenewals{*why_not_renewed_, lasted};
}

// Called wherever a loss is discovered; it overrides earlier outcomes.
void Run::lost(Loss loss, CommandFate command) {
  result_.reason = loss;
  result_.is_protected = false;
  conclude(Outcome::lost, ExitStatus::lost,
           loss_text(loss, command, store_->leases_expire(), failed_renewals(),
                     claimant_->taken_by()));
  speaker_.error(result_.message);
}

namespace {

std::string end_text(const Ended& end) {
  if (end.signal) return "was killed by SIG" + signal_name(*end.signal);
  return "exited with " + std::to_string(*end.exit_code);
}

}  // namespace

void Run::ended(const Ended& end) {
  const auto ran = for_people(*result_.ran);
  result_.command_exit_code = end.exit_code;
  result_.command_signal = end.signal;
  if (end.lost) {
    const bool in_time = failed_renewals() && *end.lost == Loss::unconfirmed &&
                         ended_at_ < result_.grant->deadline;
    lost(*end.lost, in_time ? CommandFate::ended_in_time : CommandFate::was_ended);
    speaker_.step("ran for " + ran + "; the command " + end_text(end));
  } else if (end.guardian_died) {
    conclude(Outcome::error, ExitStatus::bug,
             "the guardian process was killed; the command was ended");
    speaker_.error(result_.message);
  } else if (end.timed_out) {
    conclude(Outcome::timeout, ExitStatus::timed_out,
             "timed out: the command was ended after " + ran);
    speaker_.error(result_.message);
    // KILL in the grace is ours as far as can be known.
    const bool needed_kill = end.signal == SIGKILL;
    speaker_.step(
        "stopped after " + for_people(*plan_.timeout) + " by SIGTERM" +
        (needed_kill ? ", then SIGKILL after " + for_people(plan_.kill_after) : "") +
        "; the command " + end_text(end));
  } else {
    result_.outcome = Outcome::ran;
    result_.exit_code = end.exit_code;
    result_.signal = end.signal;
    speaker_.step("ended after " + ran +
                  (end.signal ? " by SIG" + signal_name(*end.signal)
                              : " with exit code " + std::to_string(*end.exit_code)));
  }
}

// Whether the store reported that the lease is gone: there is nothing to release.
bool Run::has_no_lease() const {
  return result_.reason == Loss::gone || result_.reason == Loss::taken_over ||
         result_.reason == Loss::failed_over;
}

// Whether the lease is left to expire: the command's last requests may still be on their
// way to a resource, and the lease, if the store still has it, keeps others out in the
// meantime.
bool Run::leaves_lease() const {
  return options_.lock_delay.count() > 0 && result_.outcome == Outcome::lost &&
         !has_no_lease();
}

// Nothing for a command that never ran, unless waiters may share its result.
std::optional<RunEnd> Run::recorded_end() const {
  const bool is_told = run_hooks_ != nullptr && result_.outcome == Outcome::not_started;
  if (!result_.ran && !is_told) return std::nullopt;
  RunEnd end;
  end.exit_code = result_.exit_code;
  if (result_.signal) end.signal = signal_name(*result_.signal);
  end.outcome = name_of(result_.outcome);
  end.duration = result_.ran.value_or(milliseconds(0));
  end.lost = result_.reason;
  end.leaves_lease = leaves_lease();
  return end;
}

std::vector<std::string> Run::environment_for(const std::optional<Grant>& grant) const {
  CommandSettings settings;
  settings.name = options_.name;
  settings.grant = grant;
  settings.store = store_->url();
  settings.name_space = common_.name_space;
  settings.config = invocation_.config;
  settings.passed_on = invocation_.passed_on;
  if (const char* held = std::getenv("DLOCK_HELD")) settings.held = held;
  return command_environment(environ, settings);
}

}  // namespace dlock
