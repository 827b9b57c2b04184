#include "cli/run/run_result.hpp"

#include <algorithm>
#include <csignal>

#include "cli/show/lock_view.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// What is told of a lock that was, or was not, obtained.
Json lock_json(const std::string& name, const LockResult& lock) {
  return Json{
      {"name", name},
      {"fence", lock.grant ? Json(lock.grant->fence.number) : Json(nullptr)},
      {"slot", lock.grant ? Json(lock.grant->slot) : Json(nullptr)},
      {"reason", lock.reason ? Json(loss_name(*lock.reason)) : Json(nullptr)},
  };
}

Json locks_of(const RunOptions& options, const RunResult& result) {
  auto known = result.locks;
  if (options.also.empty()) known = {{result.grant, result.reason}};
  known.resize(1 + options.also.size());  // if the run failed before it knew them
  Json locks = Json::array({lock_json(options.name, known.front())});
  for (std::size_t i = 0; i < options.also.size(); ++i) {
    locks.push_back(lock_json(options.also[i].name, known[i + 1]));
  }
  return locks;
}

std::string end_text(const Ended& end) {
  if (end.signal) return "was killed by SIG" + signal_name(*end.signal);
  if (end.exit_code) return "exited with " + std::to_string(*end.exit_code);
  return "was stopped";  // the guardian is dead, which alone knew how it ended
}

}  // namespace

std::string name_of(RunOutcome outcome) {
  constexpr const char* names[] = {
      "",     "ran",         "busy",    "superseded",  "deduplicated",
      "lost", "unavailable", "timeout", "not-started", "interrupted",
      "error"};
  return names[static_cast<std::size_t>(outcome)];
}

CommandEnd reported_end(const RunResult& result) {
  const bool has_another =
      result.outcome == RunOutcome::lost || result.outcome == RunOutcome::timeout;
  if (has_another && result.ran) return {result.command_exit_code, result.command_signal};
  return {result.exit_code, result.signal};
}

std::string report_line(const RunIdentity& run, const RunResult& result) {
  const auto& grant = result.grant;
  const auto [exit_code, signal] = reported_end(result);
  const bool has_run = result.started && result.ran;
  const bool has_started = has_run || result.outcome == RunOutcome::running;
  return to_line(Json{
             {"name", run.options.name},
             {"run_id", text_or_null(run.options.run_id)},
             {"outcome", text_or_null(name_of(result.outcome))},
             {"reason", result.reason ? Json(loss_name(*result.reason)) : Json(nullptr)},
             {"protected", or_null(result.is_protected)},
             {"exit_code", or_null(exit_code)},
             {"signal", signal ? Json(signal_name(*signal)) : Json(nullptr)},
             {"fence", grant ? Json(grant->fence.number) : Json(nullptr)},
             {"slot", grant ? Json(grant->slot) : Json(nullptr)},
             {"locks", locks_of(run.options, result)},
             {"store", text_or_null(run.store)},
             {"strength", grant ? or_null(grant->strength) : Json(nullptr)},
             {"host", run.host},
             {"user", run.user},
             {"command", run.options.command},
             {"label", text_or_null(run.options.description.label)},
             {"started", has_started ? Json(rfc3339(*result.started)) : Json(nullptr)},
             {"ended",
              has_run ? Json(rfc3339(*result.started + *result.ran)) : Json(nullptr)},
             {"waited_ms", or_null(result.waited)},
             {"ran_ms", or_null(result.ran)},
             {"margin_ms", or_null(result.margin)},
             {"holder", json_or_null(result.holder)},
             {"output_tail", or_null(result.last_lines)},
             {"message", text_or_null(result.message)},
         }) +
         "\n";
}

RunResult RunConclusion::whole_result() const {
  auto result = result_;
  if (options_.also.empty()) return result;
  const bool was_ready = result_.outcome != RunOutcome::interrupted;
  for (const auto& lock : locks_.all()) {
    const bool has_grant = was_ready && lock.policy;
    result.locks.push_back({has_grant ? lock.holding.grant() : std::nullopt, lock.loss});
  }
  return result;
}

void RunConclusion::conclude(RunOutcome outcome, ExitStatus status,
                             const std::string& message) {
  result_.outcome = outcome;
  result_.exit_code = code_of(status);
  result_.signal.reset();
  result_.message = message;
}

void RunConclusion::not_obtained(const Answer& answer) {
  const auto& lock = locks_.asked();
  auto message = lock.about + refusal_text(answer, lock.holding.claim().slots);
  if (std::holds_alternative<SlotsDiffer>(answer)) {
    conclude(RunOutcome::error, ExitStatus::misconfigured, message);
    speaker_.error(message);
    return;
  }
  if (const auto* deduplicated = std::get_if<Deduplicated>(&answer)) {
    const auto& window = options_.dedupe_window;
    if (deduplicated->by.ended && !window.period.empty()) {
      message += " (--dedupe " + printable(window.period) + ": since " +
                 rfc3339(window.began_at) + ")";
    }
    conclude(RunOutcome::deduplicated, ExitStatus::success, message);
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
    } else {
      message.insert(lock.about.size(), after_wait_text(options_.wait));
    }
    const auto& holders = busy->holders;
    const auto is_here = [](const HolderInfo& one) { return one.host == host_name(); };
    if (lock.holding.claim().spreads && holders.size() < lock.holding.claim().slots &&
        std::ranges::any_of(holders, is_here)) {
      message += "; this host has a slot already (--spread)";
    }
  }
  conclude(superseded ? RunOutcome::superseded : RunOutcome::busy,
           ExitStatus::not_obtained, message);
  result_.exit_code = options_.conflict_exit_code;
  if (options_.conflict_exit_code == 0) return;
  speaker_.warning(message + (options_.wait ? "" : queue_hint(answer)));
}

void RunConclusion::failed(const Failure& failure) {
  const bool absent = failure.kind() == Failure::Kind::unreachable;
  conclude(absent ? RunOutcome::unavailable : RunOutcome::error,
           status_of(failure.kind()), locks_.asked().about + failure.what());
  speaker_.error(result_.message);
}

void RunConclusion::deduplicated() {
  conclude(RunOutcome::deduplicated, ExitStatus::success, "");
}

void RunConclusion::interrupted(int signal) {
  result_ = RunResult{};
  result_.outcome = RunOutcome::interrupted;
  result_.signal = signal;
  result_.message = "interrupted by SIG" + signal_name(signal);
}

void RunConclusion::taken_at_once() {
  auto& lock = locks_.asked();
  lose(lock, Loss::broken);
  const auto taker = lock.holding.claimant().taken_by();
  conclude(RunOutcome::lost, ExitStatus::lost,
           lock.about + "lost the lock (broken) before the command could start: " +
               (taker ? taker_text(*taker) : "another run waits to replace this one"));
  speaker_.error(result_.message);
}

void RunConclusion::not_started(const SpawnFailure& failure) {
  if (failure.kind == SpawnFailure::Kind::too_late) {
    auto& lock = locks_.lost_by(failure.loss);
    const auto taker = lock.holding.claimant().taken_by();
    const bool is_taken = failure.loss == Loss::broken && taker;
    lose(lock, failure.loss);
    result_.is_protected = false;
    conclude(RunOutcome::lost, ExitStatus::lost,
             lock.about + failure.message + (is_taken ? ": " + taker_text(*taker) : ""));
    speaker_.error(result_.message);
    return;
  }
  conclude(RunOutcome::not_started, status_of(failure.kind), failure.message);
  speaker_.error(failure.message);
}

void RunConclusion::unprotected(const std::string& message) {
  result_.message = message;
  speaker_.warning("warning: " + message);
}

std::string RunConclusion::why_stopped(std::optional<Loss> loss, milliseconds ran) {
  if (loss) {
    ended_at_ = Clock::now();  // for now
    const auto& lock = locks_.lost_by(*loss);
    return lock.about + loss_text(*loss, CommandFate::is_ending,
                                  lock.store->leases_expire(), failed_renewals(lock),
                                  lock.holding.claimant().taken_by());
  }
  const bool timed_out = plan_.timeout && ran >= *plan_.timeout;
  return timed_out ? "stopping the command: --timeout is over"
                   : "stopping the processes that the command left";
}

void RunConclusion::ended(const Ended& end) {
  RunLock* outlived = nullptr;
  for (auto& lock : locks_.all()) {
    // Not until now: renewals in progress may have taken until after the deadline.
    if (!lock.policy || lock.policy->has_held(ended_at_)) continue;
    result_.is_protected = false;
    if (const auto loss = lock.policy->lost()) lose(lock, *loss);
    if (!lock.policy->is_in_outage() && outlived == nullptr) outlived = &lock;
  }
  command_ended(end);
  // The command was not ended because of the lease (for example because this process was
  // stopped), but others may have had the lock by then.
  if (outlived != nullptr && !end.lost) {
    lost(*outlived, Loss::unconfirmed, CommandFate::may_have_outlived);
  }
}

void RunConclusion::command_ended(const Ended& end) {
  const auto ran = for_people(*result_.ran);
  result_.command_exit_code = end.exit_code;
  result_.command_signal = end.signal;
  if (end.lost) {
    auto& lock = locks_.lost_by(*end.lost);
    if (*end.lost == Loss::unconfirmed && lock.policy) {
      result_.margin =
          std::chrono::duration_cast<milliseconds>(lock.policy->deadline() - ended_at_);
    }
    const bool in_time = failed_renewals(lock) && *end.lost == Loss::unconfirmed &&
                         ended_at_ < lock.policy->deadline();
    lost(lock, *end.lost, in_time ? CommandFate::ended_in_time : CommandFate::was_ended);
    speaker_.step("ran for " + ran + "; the command " + end_text(end));
  } else if (end.guardian_died) {
    conclude(RunOutcome::error, ExitStatus::bug,
             "the guardian process was killed; the command was stopped");
    speaker_.error(result_.message);
  } else if (end.timed_out) {
    conclude(RunOutcome::timeout, ExitStatus::timed_out,
             "timed out: the command was stopped after " + ran);
    speaker_.error(result_.message);
    // KILL in the grace is ours as far as can be known.
    const bool needed_kill = end.signal == SIGKILL;
    speaker_.step(
        "stopped after " + for_people(*plan_.timeout) + " by SIGTERM" +
        (needed_kill ? ", then SIGKILL after " + for_people(plan_.kill_after) : "") +
        "; the command " + end_text(end));
  } else {
    result_.outcome = RunOutcome::ran;
    result_.exit_code = end.exit_code;
    result_.signal = end.signal;
    speaker_.step("ended after " + ran +
                  (end.signal ? " by SIG" + signal_name(*end.signal)
                              : " with exit code " + std::to_string(*end.exit_code)));
  }
}

// If renewals failed when the command ended: since the first one after the last that was
// confirmed.
std::optional<FailedRenewals> RunConclusion::failed_renewals(const RunLock& lock) const {
  const auto& why = lock.holding.why_not_renewed();
  if (!why || !lock.policy) return std::nullopt;
  const auto& timing = lock.holding.timing();
  const auto asked_at =
      lock.policy->deadline() - (timing.ttl() - timing.drift() - timing.renew_every());
  const auto lasted = std::chrono::duration_cast<milliseconds>(ended_at_ - asked_at);
  if (lasted.count() <= 0) return std::nullopt;
  return FailedRenewals{*why, lasted, result_.margin};
}

void RunConclusion::lose(RunLock& lock, Loss loss) {
  lock.loss = loss;
  result_.reason = loss;
}

// Called wherever a loss is discovered; it overrides earlier outcomes.
void RunConclusion::lost(RunLock& lock, Loss loss, CommandFate command) {
  lose(lock, loss);
  result_.is_protected = false;
  conclude(
      RunOutcome::lost, ExitStatus::lost,
      lock.about + loss_text(loss, command, lock.store->leases_expire(),
                             failed_renewals(lock), lock.holding.claimant().taken_by()));
  speaker_.error(result_.message);
}

void RunConclusion::found_lost(RunLock& lock, Loss loss) {
  const bool is_in_outage = lock.policy && lock.policy->is_in_outage();
  if (!is_in_outage) {
    lost(lock, loss, CommandFate::had_ended);
    return;
  }
  lose(lock, loss);
  result_.is_protected = false;
  unprotected(lock.about + "the lock was lost (" + loss_name(loss) +
              ") during a store outage (--on-outage run)");
}

void RunConclusion::released(const RunLock& lock,
                             const std::optional<RunEnd>& end) const {
  const auto min_hold = lock.holding.claim().min_hold;
  const bool is_kept =
      end && result_.ran && *result_.ran < min_hold && lock.store->protects();
  lock.speaker.step(is_kept ? "released, and held until " + for_people(min_hold) +
                                  " after its grant"
                            : "released");
}

// `why` is not said of a lock that was left on purpose.
void RunConclusion::not_released(const RunLock& lock, const std::string& why) const {
  const bool is_left = why.empty() || leaves_lease(lock);
  if (!is_left && has_no_lease(lock)) return;
  const auto what = is_left ? "not releasing the lock because of --lock-delay"
                            : "cannot release the lock: " + why;
  const auto left = lock.holding.lease_end() - Clock::now();
  const auto how_it_ends =
      lock.store->leases_expire()
          ? "its lease expires in " + for_people(std::max(left, Clock::duration(0)))
          : "it is released when this process exits";
  lock.speaker.warning(what + "; " + how_it_ends);
}

// On this machine, no request comes late.
void RunConclusion::not_withdrawn(const RunLock& lock, const std::string& why) {
  if (!lock.store->leases_expire()) return;
  result_.may_still_get = true;
  const bool has_failed = result_.outcome == RunOutcome::unavailable ||
                          result_.outcome == RunOutcome::error || result_.ran;
  if (has_failed) return;
  lock.speaker.warning(withdrawal_failed_text(lock.holding.claim(), why));
}

bool has_no_lease(const RunLock& lock) {
  return lock.loss == Loss::gone || lock.loss == Loss::taken_over ||
         lock.loss == Loss::failed_over;
}

// Whether the lease is left to expire: the command's last requests may still be on their
// way to a resource, and the lease, if the store still has it, keeps others out in the
// meantime.
bool RunConclusion::leaves_lease(const RunLock& lock) const {
  return options_.lock_delay.count() > 0 && result_.outcome == RunOutcome::lost &&
         !has_no_lease(lock);
}

std::optional<RunEnd> RunConclusion::recorded_end(const RunLock& lock,
                                                  bool is_shared) const {
  const bool is_told = is_shared && result_.outcome == RunOutcome::not_started;
  if (!result_.ran && !is_told) return std::nullopt;
  RunEnd end;
  end.exit_code = result_.exit_code;
  if (result_.signal) end.signal = signal_name(*result_.signal);
  end.outcome = name_of(result_.outcome);
  end.duration = result_.ran.value_or(milliseconds(0));
  end.lost = result_.reason;
  if (end.lost) end.taken_by = locks_.lost_by(*end.lost).holding.claimant().taken_by();
  end.leaves_lease = leaves_lease(lock);
  return end;
}

}  // namespace dlock
