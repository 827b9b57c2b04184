#include "cli/run/locked_run.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cstdlib>
#include <utility>

#include "cli/args/nesting.hpp"
#include "util/bits.hpp"
#include "util/fd.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

// Also prints what only matters to the user.
class LeasePolicy final : public OutagePolicy {
 public:
  LeasePolicy(const RunOptions& options, const LeaseTiming& timing, Supervisor& command,
              Clock::time_point deadline, const Speaker& speaker,
              RunConclusion& conclusion)
      : OutagePolicy(options.on_outage, timing, deadline, command,
                     [&conclusion](const std::string& message) {
                       conclusion.unprotected(message);
                     }),
        speaker_(speaker) {}

  void reclaimed() override {
    speaker_.warning("the lease was missing from the store and was restored");
  }

 private:
  const Speaker& speaker_;
};

}  // namespace

LockedRun::LockedRun(const RunParts& parts)
    : context_(parts.context),
      invocation_(parts.invocation),
      options_(parts.options),
      speaker_(options_.name, invocation_.common.quiet, invocation_.common.verbose),
      wakeup_(context_),
      signals_(context_, wakeup_, parts.held),
      store_(opened_store(invocation_.common, parts.timing.budget(), context_,
                          options_.name)),
      holding_(context_, wakeup_, *store_, new_claim(invocation_.common, options_),
               parts.timing),
      plan_(parts.plan),
      guardian_(parts.guardian),
      additions_(parts.additions),
      extension_(additions_.extension),
      conclusion_(options_, plan_, holding_, speaker_),
      notice_(context_, options_.notify, speaker_) {}

asio::awaitable<RunResult> LockedRun::execute() {
  std::optional<Failure> failure;
  bool has_lock = false;
  try {
    // The timer that ends the command: if it cannot be created, nothing starts.
    if (plan_.needs_tree()) wakeup_.prepare();
    if (co_await sleep_first()) {
      const auto answer = co_await obtain_lock();
      has_lock = co_await needs_command(answer);
      if (has_lock) has_lock = co_await ensure_enough_is_left();
    }
  } catch (const Failure& error) {
    failure = error;
    has_lock = false;
  }
  const bool goes_without = failure && options_.on_outage == OnOutage::run &&
                            failure->kind() == Failure::Kind::unreachable;
  if (failure && !goes_without) fail(*failure);
  if (goes_without) {
    conclusion_.unprotected(std::string(failure->what()) + "; running without the lock");
  }

  if (has_lock || goes_without) {
    co_await run_command(has_lock);
  } else if (const auto signal = signals_.next_ending()) {
    interrupt(*signal);
  }
  // On every path, because we may hold the lock or a place in its queue, and releasing a
  // lock that is not ours does nothing.
  auto end = recorded_end();
  if (extension_ != nullptr && end) co_await settle(end);
  co_await give_back(end);
  command_.reset();  // which reaps it
  co_await notice_.end(conclusion_.result());
  co_return conclusion_.result();
}

// Returns false if a signal interrupted the sleep.
asio::awaitable<bool> LockedRun::sleep_first() {
  const auto most = static_cast<std::uint64_t>(options_.jitter.count());
  if (options_.splay.count() == 0 && most == 0) co_return true;
  const auto splay = splay_for(host_name(), options_.name, options_.splay);
  const auto span = splay + milliseconds(most > 0 ? random_up_to(most) : 0);
  const char* why = most == 0 ? "splay" : "splay and jitter";
  if (options_.splay.count() == 0) why = "jitter";
  speaker_.step("sleeping for " + for_people(span) + " (" + why + ")");
  const auto until = Clock::now() + span;
  const SignalInbox::InterruptibleWait wait(signals_);
  co_await wakeup_.sleep_until(until);
  co_return Clock::now() >= until;
}

asio::awaitable<Answer> LockedRun::obtain_lock() {
  Patience patience;
  patience.waits_for_store = options_.waits_for_store;
  if (options_.replace) {
    patience.clearing = [this](const Busy& busy) { return end_leftovers(busy); };
  }
  const auto start = Clock::now();
  const OnExit note_wait([&] { conclusion_.result().waited = elapsed_since(start); });
  const SignalInbox::InterruptibleWait wait(signals_);
  co_return co_await obtain(holding_, options_, std::move(patience), speaker_,
                            notice_.listener());
}

// Ends the processes of runs whose dlock is gone and from which this run has taken the
// lock. Returns when to check again: only a store that knows processes can tell, and it
// sends no notification when one dies.
asio::awaitable<milliseconds> LockedRun::end_leftovers(const Busy& busy) {
  constexpr milliseconds look_every{1000};
  constexpr milliseconds while_it_ends{100};
  std::vector<Fence> fences;
  for (const auto& holder : busy.holders) {
    if (holder.dlock_gone && holder.broken) fences.push_back(holder.fence);
  }
  if (!fences.empty()) {
    const auto lock = holding_.claim().lock;
    const Break order{fences};  // has to outlive the call
    const auto broken = co_await store_->break_leases(lock, order, wakeup_);
    for (const auto& one : broken) orphans_.end(one);
    co_return while_it_ends;
  }
  co_return store_->leases_expire() ? milliseconds::max() : look_every;
}

// Whether the lock was granted and the command has to run.
asio::awaitable<bool> LockedRun::needs_command(const Answer& answer) {
  const bool is_granted = holding_.grant().has_value();
  if (!is_granted) conclusion_.not_obtained(answer);
  if (extension_ == nullptr) co_return is_granted;
  const auto* deduplicated = std::get_if<Deduplicated>(&answer);
  const SignalInbox::InterruptibleWait wait(signals_);
  const auto& claim = holding_.claim();
  if (deduplicated) {
    co_await extension_->joined(deduplicated->by, *store_, claim, wakeup_);
  }
  if (!is_granted) co_return false;
  const bool is_needed = co_await extension_->is_needed(*store_, claim, wakeup_);
  if (!is_needed) conclusion_.deduplicated();
  co_return is_needed;
}

// Ensures that enough of the lease is left to start a command. Returns false if the lock
// was granted to somebody else in the meantime.
asio::awaitable<bool> LockedRun::ensure_enough_is_left() {
  while (!lasts()) {
    const auto answer = co_await holding_.ask_again();
    if (holding_.grant()) continue;
    conclusion_.not_obtained(answer);
    co_return false;
  }
  const bool is_broken = holding_.grant()->broken;
  if (is_broken) conclusion_.taken_at_once();
  co_return !is_broken;
}

void LockedRun::fail(const Failure& failure) {
  if (failure.kind() == Failure::Kind::interrupted)
    return;  // a signal ends dlock; no message
  conclusion_.failed(failure);
  wakeup_.give_up(true);  // the store timeout is used up
}

void LockedRun::interrupt(int signal) {
  wakeup_.give_up(true);  // do not wait for the store any longer
  conclusion_.interrupted(signal);
}

// Otherwise it runs without the lock.
asio::awaitable<void> LockedRun::run_command(bool has_lock) {
  auto& result = conclusion_.result();
  if (has_lock) result.grant = holding_.grant();
  result.is_protected = has_lock && store_->protects();
  if (has_lock) {
    say_granted(holding_, speaker_);
    if (result.grant->strength == 0) {
      speaker_.warning("strength 0: the lock holds only as long as no server forgets it");
    }
  }
  command_ = new_supervisor();
  auto plan = start_plan();
  LeasePolicy policy(options_, holding_.timing(), *command_, plan.deadline, speaker_,
                     conclusion_);
  if (*result.is_protected) holding_.prepare_to_keep(&policy);
  const auto started = co_await start(std::move(plan));
  if (!started) co_return;
  const auto end = co_await await_end(*started);
  conclusion_.ended(end, policy);
}

std::unique_ptr<Supervisor> LockedRun::new_supervisor() {
  const auto say = [this](const std::string& message) { speaker_.error(message); };
  if (guardian_ == nullptr) {
    return std::make_unique<DirectSupervisor>(options_.command, plan_, signals_, wakeup_,
                                              say);
  }
  return std::make_unique<GuardedSupervisor>(context_, *guardian_, plan_, signals_,
                                             wakeup_, say);
}

StartPlan LockedRun::start_plan() const {
  const auto& grant = conclusion_.result().grant;
  StartPlan plan;
  plan.environment = environment();
  plan.session = grant ? holding_.claimant().session() : -1;
  if (grant) plan.deadline = grant->deadline;
  if (extension_ != nullptr) plan.output = extension_->output();
  return plan;
}

std::vector<std::string> LockedRun::environment() const {
  CommandSettings settings;
  settings.name = options_.name;
  settings.grant = conclusion_.result().grant;
  settings.store = store_->url();
  settings.name_space = invocation_.common.name_space;
  settings.run_id = options_.run_id;
  settings.config = invocation_.config;
  settings.passed_on = invocation_.passed_on;
  if (const char* held = std::getenv("DLOCK_HELD")) settings.held = held;
  return command_environment(environ, settings);
}

// The last check before the command starts: nothing may start after a signal that would
// have ended dlock.
bool LockedRun::may_start() {
  if (const auto signal = signals_.next_ending()) {
    interrupt(*signal);
    return false;
  }
  if (!conclusion_.result().grant || lasts()) return true;
  conclusion_.not_started(
      SpawnFailure{SpawnFailure::Kind::too_late,
                   "too little of the lease was left to start the command"});
  return false;
}

// Returns the process, if it could be started.
asio::awaitable<std::optional<Spawned>> LockedRun::start(StartPlan plan) {
  auto& result = conclusion_.result();
  auto note = result.grant ? holding_.claimant().start_note() : std::nullopt;
  if (note) plan.note = &*note;
  if (!may_start()) co_return std::nullopt;
  // A lease that expires is renewed from before the start, which can take long.
  const bool keeps_first = guardian_ != nullptr;
  try {
    if (extension_ != nullptr) extension_->command_starts(context_);
    if (keeps_first) holding_.keep();
  } catch (const Failure& failure) {
    if (extension_ != nullptr) extension_->command_ended();
    conclusion_.not_started(
        SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()});
    co_return std::nullopt;
  }
  notice_.command_starts();
  started_at_ = Clock::now();
  result.started = wall_now();
  const auto started = co_await command_->start(std::move(plan));
  note.reset();  // others can use its descriptor now
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
    co_await holding_.stop_keeping();
    if (extension_ != nullptr) extension_->command_ended();
    conclusion_.not_started(*failure);
    co_return std::nullopt;
  }
  const auto& spawned = std::get<Spawned>(started);
  speaker_.step("started process " + std::to_string(spawned.pid) + ": " +
                printable_command(options_.command, 200));
  if (extension_ != nullptr) extension_->command_runs();
  notice_.command_runs();
  if (additions_.has_started) {
    auto known = result;
    known.outcome = RunOutcome::running;
    additions_.has_started(known, store_->url());
  }
  if (!keeps_first) holding_.keep();
  co_return spawned;
}

// Waits for the command to end, and for renewals that are still in progress.
asio::awaitable<Ended> LockedRun::await_end(const Spawned& spawned) {
  // Runs concurrently with the supervision: a slow store must not delay signals.
  Wakeup noting(context_);
  bool noted = !conclusion_.result().grant;
  if (!noted) {
    // The arguments have to outlive the call, which only creates the coroutine.
    asio::co_spawn(context_, holding_.claimant().started(spawned, noting),
                   [&](std::exception_ptr error) {
                     noted = true;
                     warn_not_recorded(error);
                     wakeup_.notify();
                   });
  }
  auto end = co_await command_->ended();
  conclusion_.command_ended_at(Clock::now());
  if (extension_ != nullptr) extension_->command_ended();
  notice_.command_ended();
  conclusion_.result().ran = elapsed_since(started_at_);
  noting.give_up(true);
  while (!noted) co_await wakeup_.wait_until(Clock::time_point::max());
  co_await holding_.stop_keeping();
  co_return end;
}

void LockedRun::warn_not_recorded(const std::exception_ptr& error) const {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) return;  // it has ended already
    speaker_.warning("cannot record the command's process: " +
                     std::string(failure.what()));
  }
}

std::optional<RunEnd> LockedRun::recorded_end() const {
  return conclusion_.recorded_end(extension_ != nullptr);
}

asio::awaitable<void> LockedRun::settle(std::optional<RunEnd>& end) {
  const SignalInbox::InterruptibleWait wait(signals_);
  const bool counts = co_await extension_->settle(conclusion_.result(), *store_,
                                                  holding_.claim(), wakeup_);
  end->is_shared = counts && !signals_.was_told_to_end();
}

asio::awaitable<void> LockedRun::give_back(std::optional<RunEnd> end) {
  if (guardian_ != nullptr) {
    // What is left to do can wait for the server and for the next waiter to run.
    use_batch_scheduling();
    // Now, because the guardian takes as long to exit as the server takes to reply.
    if (command_) command_->let_go();
  }
  bool is_to_be_recorded = false;
  try {
    const auto released = co_await release(end);
    if (guardian_ != nullptr) ::sched_yield();  // for them
    if (released == Release::released) conclusion_.released(end);
    if (released == Release::left) conclusion_.not_released("");
  } catch (const Failure& failure) {
    const bool is_interrupted = failure.kind() == Failure::Kind::interrupted;
    if (!is_interrupted && conclusion_.result().grant && !conclusion_.has_no_lease()) {
      conclusion_.not_released(failure.what());
    }
    is_to_be_recorded = end && end->lost && failure.kind() == Failure::Kind::unreachable;
  }
  if (is_to_be_recorded) co_await record_loss(end);
}

// The store knows whether the lease held to the end; if it did not, the run is recorded
// as lost.
asio::awaitable<Release> LockedRun::release(std::optional<RunEnd>& end) {
  const auto answer = co_await holding_.release(end);
  const auto loss = loss_found_by(answer);
  if (!loss) co_return answer;
  if (conclusion_.result().ran) conclusion_.found_lost(*loss);
  if (auto known = recorded_end()) end = known;
  end->lost = loss;
  co_return co_await holding_.release(end);
}

// While the store has the lease, others take the run for one in progress, and skip
// theirs. So the loss is recorded as soon as the store replies again within that time,
// but dlock stays no longer than for another ttl, and not after a signal.
asio::awaitable<void> LockedRun::record_loss(const std::optional<RunEnd>& end) {
  if (!conclusion_.result().grant || signals_.was_told_to_end()) co_return;
  constexpr milliseconds pause{100};
  const auto ttl = holding_.timing().ttl();
  const auto until = std::min(holding_.lease_end(), later(Clock::now(), ttl));
  if (Clock::now() >= until) co_return;
  const SignalInbox::InterruptibleWait wait(signals_);
  if (wakeup_.gives_up()) co_return;
  if (co_await holding_.release_by(until, end, pause, true)) {
    speaker_.step("recorded that the lock was lost");
  }
}

}  // namespace dlock
