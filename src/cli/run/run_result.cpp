#include "cli/run/run_result.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "supervise/signals.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/path_trust.hpp"
#include "util/slow_writer.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

bool is_same_file(const struct stat& status, int fd) {
  struct stat other {};
  return ::fstat(fd, &other) == 0 && other.st_dev == status.st_dev &&
         other.st_ino == status.st_ino;
}

// How long to wait for the reader of a report. The limit ensures that a pipe that nobody
// reads does not block dlock.
constexpr milliseconds patience_for_reader{5000};

std::string cannot_write_to(const std::string& path) {
  return "cannot write the report to " + printable(path);
}

void require_own(const Way& way, const std::string& path) {
  const auto danger = danger_on(way.steps, Use::output, ::geteuid());
  if (!danger) return;
  throw Failure(Failure::Kind::misconfigured,
                cannot_write_to(path) + ": " + text_of(*danger));
}

// Opens or creates the file. O_NONBLOCK: a FIFO without a reader is an error instead of
// blocking, and a full one does not block the final write.
Fd open_report_file(const std::string& path) {
  constexpr int flags = O_WRONLY | O_NOCTTY | O_NONBLOCK;
  constexpr int most_tries = 3;
  Fd file;
  for (int tries = 0; !file && tries < most_tries; ++tries) {
    auto way = way_to(path);
    require_own(way, path);
    const bool is_there = has_end(way);
    file = open_at(way, is_there ? flags : flags | O_CREAT | O_EXCL, 0666);
    // Unless another process has created or removed it since it was looked up.
    if (!file && errno != (is_there ? ENOENT : EEXIST)) break;
    if (!file || !is_there) continue;
    see_end(way, file);  // which may have been replaced since
    require_own(way, path);
  }
  if (!file) throw failure_of_named(errno, cannot_write_to(path));
  return file;
}

std::string end_text(const Ended& end) {
  if (end.signal) return "was killed by SIG" + signal_name(*end.signal);
  return "exited with " + std::to_string(*end.exit_code);
}

}  // namespace

std::string name_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::running: return "";
    case RunOutcome::ran: return "ran";
    case RunOutcome::busy: return "busy";
    case RunOutcome::superseded: return "superseded";
    case RunOutcome::deduplicated: return "deduplicated";
    case RunOutcome::lost: return "lost";
    case RunOutcome::unavailable: return "unavailable";
    case RunOutcome::timeout: return "timeout";
    case RunOutcome::not_started: return "not-started";
    case RunOutcome::interrupted: return "interrupted";
    case RunOutcome::error: break;
  }
  return "error";
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
             {"store", text_or_null(run.store)},
             {"strength", grant ? or_null(grant->strength) : Json(nullptr)},
             {"host", run.host},
             {"user", run.user},
             {"command", run.options.command},
             {"label", text_or_null(run.options.label)},
             {"started", has_started ? Json(rfc3339(*result.started)) : Json(nullptr)},
             {"ended",
              has_run ? Json(rfc3339(*result.started + *result.ran)) : Json(nullptr)},
             {"waited_ms", or_null(result.waited)},
             {"ran_ms", or_null(result.ran)},
             {"holder", json_or_null(result.holder)},
             {"message", text_or_null(result.message)},
         }) +
         "\n";
}

void RunConclusion::conclude(RunOutcome outcome, ExitStatus status,
                             const std::string& message) {
  result_.outcome = outcome;
  result_.exit_code = code_of(status);
  result_.signal.reset();
  result_.message = message;
}

void RunConclusion::not_obtained(const Answer& answer) {
  auto message = refusal_text(answer, holding_.claim().slots);
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
           status_of(failure.kind()), failure.what());
  speaker_.error(failure.what());
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
  result_.reason = Loss::broken;
  const auto taker = holding_.claimant().taken_by();
  conclude(RunOutcome::lost, ExitStatus::lost,
           "lost the lock (broken) before the command could start: " +
               (taker ? taker_text(*taker) : "another run waits to replace this one"));
  speaker_.error(result_.message);
}

void RunConclusion::not_started(const SpawnFailure& failure) {
  if (failure.kind == SpawnFailure::Kind::too_late) {
    const auto taker = holding_.claimant().taken_by();
    const bool is_taken = failure.loss == Loss::broken && taker;
    result_.reason = failure.loss;
    result_.is_protected = false;
    conclude(RunOutcome::lost, ExitStatus::lost,
             failure.message + (is_taken ? ": " + taker_text(*taker) : ""));
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

void RunConclusion::ended(const Ended& end, const OutagePolicy& policy) {
  const bool had_lease = result_.grant.has_value();
  // Not until now: renewals in progress may have taken until after the deadline.
  const bool has_held = policy.has_held(ended_at_);
  ended_in_outage_ = policy.is_in_outage();
  if (had_lease) {
    result_.grant->deadline = policy.deadline();
    if (!has_held) result_.is_protected = false;
  }
  if (policy.lost()) result_.reason = policy.lost();
  command_ended(end);
  // The command was not ended because of the lease (for example because this process was
  // stopped), but others may have had the lock by then.
  if (had_lease && !has_held && !ended_in_outage_ && !end.lost) {
    lost(Loss::unconfirmed, CommandFate::may_have_outlived);
  }
}

void RunConclusion::command_ended(const Ended& end) {
  const auto ran = for_people(*result_.ran);
  result_.command_exit_code = end.exit_code;
  result_.command_signal = end.signal;
  if (end.lost) {
    const bool in_time = failed_renewals() && *end.lost == Loss::unconfirmed &&
                         ended_at_ < result_.grant->deadline;
    lost(*end.lost, in_time ? CommandFate::ended_in_time : CommandFate::was_ended);
    speaker_.step("ran for " + ran + "; the command " + end_text(end));
  } else if (end.guardian_died) {
    conclude(RunOutcome::error, ExitStatus::bug,
             "the guardian process was killed; the command was ended");
    speaker_.error(result_.message);
  } else if (end.timed_out) {
    conclude(RunOutcome::timeout, ExitStatus::timed_out,
             "timed out: the command was ended after " + ran);
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
std::optional<FailedRenewals> RunConclusion::failed_renewals() const {
  if (!holding_.why_not_renewed() || !result_.grant) return std::nullopt;
  const auto& timing = holding_.timing();
  const auto asked_at =
      result_.grant->deadline - (timing.ttl() - timing.drift() - timing.renew_every());
  const auto lasted = std::chrono::duration_cast<milliseconds>(ended_at_ - asked_at);
  if (lasted.count() <= 0) return std::nullopt;
  return FailedRenewals{*holding_.why_not_renewed(), lasted};
}

// Called wherever a loss is discovered; it overrides earlier outcomes.
void RunConclusion::lost(Loss loss, CommandFate command) {
  result_.reason = loss;
  result_.is_protected = false;
  conclude(RunOutcome::lost, ExitStatus::lost,
           loss_text(loss, command, holding_.store().leases_expire(), failed_renewals(),
                     holding_.claimant().taken_by()));
  speaker_.error(result_.message);
}

void RunConclusion::found_lost(Loss loss) {
  if (!ended_in_outage_) {
    lost(loss, CommandFate::had_ended);
    return;
  }
  result_.reason = loss;
  result_.is_protected = false;
  unprotected("the lock was lost (" + loss_name(loss) +
              ") during a store outage (--on-outage run)");
}

void RunConclusion::released(const std::optional<RunEnd>& end) const {
  const auto min_hold = holding_.claim().min_hold;
  const bool is_kept =
      end && result_.ran && *result_.ran < min_hold && holding_.store().protects();
  speaker_.step(is_kept ? "released, and held until " + for_people(min_hold) +
                              " after its grant"
                        : "released");
}

// `why` is not said of a lock that was left on purpose.
void RunConclusion::not_released(const std::string& why) const {
  const auto what = leaves_lease() ? "not releasing the lock because of --lock-delay"
                                   : "cannot release the lock: " + why;
  const auto left = holding_.lease_end() - Clock::now();
  const auto how_it_ends =
      holding_.store().leases_expire()
          ? "its lease expires in " + for_people(std::max(left, Clock::duration(0)))
          : "it is released when this process exits";
  speaker_.warning(what + "; " + how_it_ends);
}

bool RunConclusion::has_no_lease() const {
  return result_.reason == Loss::gone || result_.reason == Loss::taken_over ||
         result_.reason == Loss::failed_over;
}

// Whether the lease is left to expire: the command's last requests may still be on their
// way to a resource, and the lease, if the store still has it, keeps others out in the
// meantime.
bool RunConclusion::leaves_lease() const {
  return options_.lock_delay.count() > 0 && result_.outcome == RunOutcome::lost &&
         !has_no_lease();
}

std::optional<RunEnd> RunConclusion::recorded_end(bool is_shared) const {
  const bool is_told = is_shared && result_.outcome == RunOutcome::not_started;
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

ReportFile::ReportFile(const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    is_standard_error_ = true;
    return;
  }
  file_ = open_report_file(path);
}

bool ReportFile::write(const std::string& line) {
  if (is_standard_error_) return write_within(STDERR_FILENO, line, patience_for_reader);
  if (!file_) return true;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    // If the file is /dev/stdout, it already has the command's output.
    if (is_same_file(status, STDOUT_FILENO) || is_same_file(status, STDERR_FILENO)) {
      ::lseek(file_.get(), 0, SEEK_END);
    } else if (::ftruncate(file_.get(), 0) != 0) {
      return false;  // only now, so that the old report stays until there is a new one
    }
  }
  return write_within(file_.get(), line, patience_for_reader);
}

}  // namespace dlock
