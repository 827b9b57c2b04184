#include "cli/run.hpp"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "cli/lock_view.hpp"
#include "cli/look.hpp"
#include "cli/nesting.hpp"
#include "cli/report.hpp"
#include "cli/speaker.hpp"
#include "lock/acquire.hpp"
#include "supervise/direct_supervisor.hpp"
#include "supervise/guarded_supervisor.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

// What the lease of this run is good for.
LeaseTiming timing_of(const CommonOptions& common, const RunOptions& options) {
  const bool runs_out = leases_run_out(common.store);
  const auto budget =
      store_timeout(common, runs_out ? std::optional(options.ttl) : std::nullopt);
  return LeaseTiming(options.ttl, options.supervision.kill_after, budget);
}

// Throws UsageError if the lease is too short for what has to fit into it.
void check(const LeaseTiming& timing) {
  if (timing.is_sound()) return;
  throw UsageError("a ttl of " + for_people(timing.ttl()) + " is too short: " +
                   for_people(timing.renew_every()) + " until it is renewed, " +
                   for_people(timing.budget()) + " for the store to answer, " +
                   for_people(timing.grace()) + " from TERM to KILL and " +
                   for_people(timing.margin() + timing.drift()) + " of margin make " +
                   for_people(timing.needed()));
}

SupervisionPlan supervision_of(const CommonOptions& common, const RunOptions& options,
                               const LeaseTiming& timing) {
  auto plan = options.supervision;
  plan.own_group = !has_terminal();
  if (leases_run_out(common.store)) plan.lease = timing;
  return plan;
}

Guardian::Task guardian_task(const RunOptions& options, const SupervisionPlan& plan,
                             const HeldSignals& held) {
  // Of what dlock adds no variable can be longer than this: exec(3) would refuse it.
  constexpr std::size_t longest_variable = 128 * 1024;
  std::size_t size = 4 * longest_variable;
  for (auto* variable = environ; *variable != nullptr; ++variable) {
    size += std::strlen(*variable) + 1 + sizeof(char*);
  }
  return {options.command, held.inherited(), plan, size};
}

// Tells the user what is of no concern to whoever obeys the lease.
class Messenger final : public LeaseWatcher {
 public:
  Messenger(LeaseWatcher& obeys, const Speaker& speaker)
      : obeys_(obeys), speaker_(speaker) {}

  void extend(Clock::time_point deadline) override { obeys_.extend(deadline); }
  void renewal_failed(Clock::time_point now) override { obeys_.renewal_failed(now); }
  void reclaimed() override {
    speaker_.warning("the lease was gone from the store; set up again");
  }
  void forfeit(Loss loss) override { obeys_.forfeit(loss); }

 private:
  LeaseWatcher& obeys_;
  const Speaker& speaker_;
};

// One run: its parts, and what is known of it so far.
class Run {
 public:
  // Without a guardian for a store whose leases do not run out.
  Run(asio::io_context& context, const Invocation& invocation,
      const CommonOptions& common, const RunOptions& options, const LeaseTiming& timing,
      const SupervisionPlan& plan, const HeldSignals& held, Guardian* guardian)
      : context_(context),
        invocation_(invocation),
        common_(common),
        options_(options),
        speaker_(options.name, common.quiet, common.verbose),
        wakeup_(context),
        signals_(context, wakeup_, held),
        store_(open_store(common.store, timing.budget(), context)),
        timing_(timing),
        plan_(plan),
        guardian_(guardian) {}

  std::string store_url() const { return store_->url(); }

  asio::awaitable<RunResult> to_the_end();

 private:
  asio::awaitable<bool> make_sure(Grant& grant);
  bool lasts(const Grant& grant) const;
  asio::awaitable<bool> wait_out_jitter();
  asio::awaitable<Answer> obtain();
  bool may_start_without(const Failure& failure) const;
  std::unique_ptr<Supervisor> supervisor();
  asio::awaitable<void> run_command(const std::optional<Grant>& grant);
  void unprotected(const std::string& message);
  asio::awaitable<void> give_back(const std::optional<RunEnd>& end);

  void conclude(Outcome outcome, ExitStatus status, const std::string& message);
  void not_obtained(const Answer& answer);
  void failed(const Failure& failure);
  void interrupted(int signal);
  void not_started(const SpawnFailure& failure);
  void ended(const Ended& ended);
  void show_waiting(const Busy& busy);
  std::string release_step(const std::optional<RunEnd>& end) const;
  std::string how_it_ends() const;
  bool leaves_lease() const;
  void warn_not_noted(const std::exception_ptr& error) const;
  std::optional<RunEnd> end_for_the_record() const;
  Claim claim() const;
  std::vector<std::string> environment_for(const std::optional<Grant>& grant) const;

  asio::io_context& context_;
  const Invocation& invocation_;
  const CommonOptions& common_;
  const RunOptions& options_;
  Speaker speaker_;
  Wakeup wakeup_;
  SignalInbox signals_;
  std::unique_ptr<Store> store_;
  LeaseTiming timing_;
  SupervisionPlan plan_;
  Guardian* guardian_;
  Claim claim_;
  RunResult result_;
};

asio::awaitable<RunResult> Run::to_the_end() {
  claim_ = claim();
  std::optional<Failure> failure;
  std::optional<Grant> grant;
  try {
    if (co_await wait_out_jitter()) {
      const auto answer = co_await obtain();
      if (const auto* granted = std::get_if<Grant>(&answer)) {
        grant = *granted;
        if (!co_await make_sure(*grant)) grant.reset();
      } else {
        not_obtained(answer);
      }
    }
  } catch (const Failure& error) {
    failure = error;
    grant.reset();
  }
  const bool goes_without = failure && may_start_without(*failure);
  if (failure && !goes_without) failed(*failure);
  if (goes_without)
    unprotected(std::string(failure->what()) + "; running without the lock");

  if (grant || goes_without) {
    co_await run_command(grant);
  } else if (const auto signal = signals_.next_ending()) {
    interrupted(*signal);
  }
  // On every path: the lock, or a place in its queue, may be ours all the same, and
  // giving back what is not ours does nothing.
  co_await give_back(end_for_the_record());
  co_return result_;
}

// Whether the user wants the command to run though the store is not there.
bool Run::may_start_without(const Failure& failure) const {
  return options_.on_outage == OnOutage::run &&
         failure.kind() == Failure::Kind::unreachable;
}

// Makes sure that enough is left of the lease for a command to start on it; asks for all
// of it again if not (this process was stopped, or the machine suspended). False if the
// lock went to somebody else meanwhile.
asio::awaitable<bool> Run::make_sure(Grant& grant) {
  for (int tries = 0; !lasts(grant); ++tries) {
    if (tries == 3) throw Failure(Failure::Kind::unreachable, "the store is too slow");
    const auto answer = co_await store_->ask(claim_, Queue::stay_out, wakeup_);
    const auto* granted = std::get_if<Grant>(&answer);
    if (granted == nullptr) {
      not_obtained(answer);
      co_return false;
    }
    grant = *granted;
  }
  co_return true;
}

bool Run::lasts(const Grant& grant) const {
  return !store_->leases_run_out() ||
         grant.deadline - Clock::now() >= timing_.needed_to_start();
}

// Whether nothing came in between.
asio::awaitable<bool> Run::wait_out_jitter() {
  if (options_.jitter.count() == 0) co_return true;
  const auto most = static_cast<std::uint64_t>(options_.jitter.count());
  const milliseconds jitter(random_up_to(most));
  speaker_.step("sleeping " + for_people(jitter) + " of jitter");
  const auto until = Clock::now() + jitter;
  signals_.give_up_waiting(true);
  while (Clock::now() < until && !wakeup_.gives_up()) co_await wakeup_.wait_until(until);
  signals_.give_up_waiting(false);
  co_return Clock::now() >= until;
}

asio::awaitable<Answer> Run::obtain() {
  Patience patience;
  const auto start = Clock::now();
  if (options_.wait) patience.until = later(start, *options_.wait);
  patience.waiting = [this](const Busy& busy) { show_waiting(busy); };
  patience.retrying = [this](const Failure& failure) {
    speaker_.step(std::string(failure.what()) + "; trying again");
  };
  speaker_.step("asking " + printable(store_->url()));
  signals_.give_up_waiting(true);
  std::exception_ptr error;
  std::optional<Answer> answer;
  try {
    answer = co_await acquire(*store_, claim_, patience, wakeup_);
  } catch (...) {
    error = std::current_exception();
  }
  signals_.give_up_waiting(false);
  speaker_.live("");
  result_.waited = since(start);
  if (error) std::rethrow_exception(error);
  co_return *answer;
}

std::unique_ptr<Supervisor> Run::supervisor() {
  const auto say = [this](const std::string& message) { speaker_.error(message); };
  if (guardian_ == nullptr) {
    return std::make_unique<DirectSupervisor>(options_.command, plan_, signals_, wakeup_,
                                              say);
  }
  return std::make_unique<GuardedSupervisor>(context_, *guardian_, plan_, signals_,
                                             wakeup_, say);
}

// Without a grant the command runs all the same, and holds nothing.
asio::awaitable<void> Run::run_command(const std::optional<Grant>& grant) {
  result_.grant = grant;
  result_.is_protected = grant && store_->protects();
  if (grant) {
    speaker_.step("granted, fence " + std::to_string(grant->fence.number) + ", slot " +
                  std::to_string(grant->slot) +
                  (store_->protects() ? "" : " (none: excludes nobody)"));
  }
  const auto command = supervisor();
  StartPlan start_plan;
  start_plan.environment = environment_for(grant);
  start_plan.session = grant ? store_->session() : -1;
  if (grant) start_plan.deadline = grant->deadline;
  const auto note = grant ? store_->start_note(claim_) : std::nullopt;
  if (note) {
    start_plan.note = note->file.get();
    start_plan.note_before = note->before;
    start_plan.note_after = note->after;
  }
  OutagePolicy lease(options_.on_outage, timing_, start_plan.deadline, *command,
                     [this](const std::string& message) { unprotected(message); });
  Messenger messenger(lease, speaker_);
  // Nothing may start after a signal that would have ended us, so the look is the last
  // thing before.
  if (const auto signal = signals_.next_ending()) {
    interrupted(*signal);
    co_return;
  }
  if (grant && !lasts(*grant)) {
    not_started(SpawnFailure{SpawnFailure::Kind::too_late,
                             "the lease ran low before the command could start"});
    co_return;
  }
  // A lease that runs out is kept from before the start, which can take its time.
  const bool keeps_first = guardian_ != nullptr;
  try {
    if (keeps_first) wakeup_.prepare();
    if (grant && keeps_first) store_->start_keeping(claim_, *grant, timing_, messenger);
  } catch (const Failure& failure) {
    not_started(SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()});
    co_return;
  }
  const auto start = Clock::now();
  const auto started = co_await command->start(std::move(start_plan));
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
    store_->stop_keeping();
    not_started(*failure);
    co_return;
  }
  const auto& spawned = std::get<Spawned>(started);
  speaker_.step("started process " + std::to_string(spawned.pid) + ": " +
                printable_command(options_.command, 200));
  if (grant && !keeps_first) store_->start_keeping(claim_, *grant, timing_, messenger);
  // Beside the supervision: a store that is slow to answer must not hold up signals.
  Wakeup noting(context_);
  bool noted = !grant;
  if (grant) {
    asio::co_spawn(
        context_,
        store_->started(claim_, {spawned.pid, spawned.not_before, spawned.not_after},
                        noting),
        [&](std::exception_ptr error) {
          noted = true;
          warn_not_noted(error);
          wakeup_.notify();
        });
  }
  const auto end = co_await command->ended();
  result_.ran = since(start);
  noting.give_up(true);
  while (!noted) co_await wakeup_.wait_until(Clock::time_point::max());
  store_->stop_keeping();
  if (grant) {
    result_.grant->deadline = lease.deadline();
    if (!lease.has_held(Clock::now())) result_.is_protected = false;
  }
  if (lease.lost()) result_.reason = lease.lost();
  ended(end);
}

// Says that the command has, or may have, no lock any more, as the user wanted it.
void Run::unprotected(const std::string& message) {
  result_.message = message;
  speaker_.warning("warning: " + message);
}

void Run::warn_not_noted(const std::exception_ptr& error) const {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) return;  // it has ended already
    speaker_.warning("cannot note the command's process: " + std::string(failure.what()));
  }
}

asio::awaitable<void> Run::give_back(const std::optional<RunEnd>& end) {
  try {
    const auto released = co_await store_->release(claim_, end, wakeup_);
    if (released == Release::released) speaker_.step(release_step(end));
    if (released == Release::left) {
      speaker_.warning("because of the lock delay the lock is not given back; " +
                       how_it_ends());
    }
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::interrupted && result_.grant) {
      speaker_.warning("cannot give the lock back: " + std::string(failure.what()) +
                       "; " + how_it_ends());
    }
  }
}

std::string Run::release_step(const std::optional<RunEnd>& end) const {
  if (!end || *result_.ran >= claim_.min_hold || !store_->protects()) return "released";
  return "released, and held until " + for_people(claim_.min_hold) + " from its grant";
}

// What becomes of a lock that could not be given back.
std::string Run::how_it_ends() const {
  if (!store_->leases_run_out()) return "it is free once this process has ended";
  const auto left =
      later(result_.grant->deadline, timing_.drift() + claim_.lock_delay) - Clock::now();
  return "it ends by itself in " + for_people(std::max(left, Clock::duration(0)));
}

void Run::conclude(Outcome outcome, ExitStatus status, const std::string& message) {
  result_.outcome = outcome;
  result_.exit_code = code_of(status);
  result_.signal.reset();
  result_.message = message;
}

void Run::not_obtained(const Answer& answer) {
  const auto message = refusal_text(answer, claim_.slots);
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
  if (const auto* busy = std::get_if<Busy>(&answer); busy && !busy->holders.empty()) {
    result_.holder = busy->holders.front();
  }
  conclude(Outcome::busy, ExitStatus::not_obtained, message);
  result_.exit_code = options_.conflict_exit_code;
  if (options_.conflict_exit_code != 0) speaker_.warning(message);
}

void Run::failed(const Failure& failure) {
  if (failure.kind() == Failure::Kind::interrupted) return;  // the signal says it all
  const bool absent = failure.kind() == Failure::Kind::unreachable;
  conclude(absent ? Outcome::unavailable : Outcome::error, status_of(failure.kind()),
           failure.what());
  wakeup_.give_up(true);  // the store has had its time
  speaker_.error(failure.what());
}

void Run::interrupted(int signal) {
  wakeup_.give_up(true);  // what is left to do is not worth waiting for
  result_ = RunResult{};
  result_.outcome = Outcome::interrupted;
  result_.signal = signal;
  result_.message = "interrupted by SIG" + signal_name(signal);
}

void Run::not_started(const SpawnFailure& failure) {
  if (failure.kind == SpawnFailure::Kind::too_late) {
    result_.reason = Loss::unconfirmed;
    conclude(Outcome::lost, ExitStatus::lost, failure.message);
    speaker_.error(failure.message);
    return;
  }
  conclude(Outcome::not_started, status_of(failure.kind), failure.message);
  speaker_.error(failure.message);
}

void Run::ended(const Ended& end) {
  const auto ran = for_people(*result_.ran);
  if (end.lost) {
    result_.reason = end.lost;
    conclude(Outcome::lost, ExitStatus::lost,
             "lost the lock (" + name_of(*end.lost) + "); the command was ended");
    speaker_.error(result_.message);
  } else if (end.guardian_died) {
    conclude(Outcome::error, ExitStatus::bug,
             "the guardian process was killed; the command was ended");
    speaker_.error(result_.message);
  } else if (end.timed_out) {
    conclude(Outcome::timeout, ExitStatus::timed_out,
             "timed out: the command was ended after " + ran);
    speaker_.error(result_.message);
  } else {
    result_.outcome = Outcome::ran;
    result_.exit_code = end.exit_code;
    result_.signal = end.signal;
    speaker_.step("ended after " + ran +
                  (end.signal ? " by SIG" + signal_name(*end.signal)
                              : " with exit code " + std::to_string(*end.exit_code)));
  }
}

void Run::show_waiting(const Busy& busy) { speaker_.live(waiting_text(busy)); }

// Whether what the command did may still be on its way to a resource, and the lease,
// which the store may still have, is to keep others out meanwhile.
bool Run::leaves_lease() const {
  return options_.lock_delay.count() > 0 && result_.outcome == Outcome::lost &&
         result_.reason != Loss::gone && result_.reason != Loss::taken_over;
}

// Nothing for a command that never ran.
std::optional<RunEnd> Run::end_for_the_record() const {
  if (!result_.ran) return std::nullopt;
  RunEnd end;
  end.exit_code = result_.exit_code;
  if (result_.signal) end.signal = signal_name(*result_.signal);
  end.outcome = name_of(result_.outcome);
  end.duration = *result_.ran;
  end.leaves_lease = leaves_lease();
  return end;
}

Claim Run::claim() const {
  Claim claim;
  claim.lock = {common_.name_space, options_.name};
  claim.token.bytes = random_bytes();
  claim.mode = options_.shared ? Mode::shared : Mode::exclusive;
  claim.slots = options_.slots;
  claim.ttl = options_.ttl;
  claim.lock_delay = options_.lock_delay;
  claim.reclaim = options_.reclaim;
  claim.label = options_.label;
  claim.command = options_.command;
  claim.dedupe = options_.dedupe;
  claim.min_hold = options_.min_hold;
  const char* held = std::getenv("DLOCK_HELD");
  if (held != nullptr) claim.held_above = fences_held_above(held, options_.name);
  return claim;
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

}  // namespace

Exit run_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options =
      run_options(invocation.settings, invocation.operands.at(0), invocation.command);
  ReportFile report(options.report);
  const auto timing = timing_of(common, options);
  const bool needs_guardian = leases_run_out(common.store);
  if (needs_guardian) check(timing);

  const HeldSignals held;
  RunResult result;
  std::string store;
  std::exception_ptr error;
  try {
    const auto plan = supervision_of(common, options, timing);
    std::optional<Guardian> guardian;
    if (needs_guardian) guardian.emplace(guardian_task(options, plan, held));
    asio::io_context context(1);
    Run run(context, invocation, common, options, timing, plan, held,
            guardian ? &*guardian : nullptr);
    store = run.store_url();
    asio::co_spawn(
        context, [&run] { return run.to_the_end(); },
        [&](std::exception_ptr thrown, RunResult ended) {
          error = thrown;
          result = std::move(ended);
          context.stop();
        });
    context.run();
  } catch (const Failure& failure) {
    result.exit_code = code_of(status_of(failure.kind()));
    result.message = failure.what();
    error = std::current_exception();
  }
  if (!options.report.empty() &&
      !report.write(report_line(options.name, store, result))) {
    Speaker(options.name, common.quiet, common.verbose)
        .warning("cannot write the report to " + printable(options.report));
  }
  if (error) std::rethrow_exception(error);
  return {result.exit_code.value_or(0), result.signal};
}

}  // namespace dlock
