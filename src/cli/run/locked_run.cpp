#include "cli/run/locked_run.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "cli/run/missed_ends.hpp"
#include "cli/run/verb_store.hpp"
#include "lock/history.hpp"
#include "util/bits.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {

LockedRun::LockedRun(const RunParts& parts)
    : context_(parts.context),
      invocation_(parts.invocation),
      options_(parts.options),
      wakeup_(context_),
      signals_(context_, wakeup_, parts.held),
      locks_(context_, wakeup_, invocation_.common, options_, parts.timing),
      speaker_(locks_.first().speaker),
      plan_(parts.plan),
      guardian_(parts.guardian),
      additions_(parts.additions),
      conclusion_(options_, plan_, locks_) {
  if (options_.notify == Notify::off) return;
  notice_ = ServiceNotice::begin(context_, options_.notify, signals_, speaker_);
}

asio::awaitable<RunResult> LockedRun::execute() {
  std::optional<Failure> failure;
  bool has_locks = false;
  warn_of_host_name();
  try {
    // The timer that stops the command: if it cannot be created, nothing starts.
    if (plan_.needs_tree()) wakeup_.prepare();
    if (co_await sleep_first()) has_locks = co_await obtain_locks();
  } catch (const Failure& error) {
    failure = error;
    has_locks = false;
  }
  bool goes_without = failure && options_.on_outage == OnOutage::run &&
                      failure->kind() == Failure::Kind::unreachable;
  // Or a script that starts itself under its lock would do that for ever.
  if (goes_without && is_in_unprotected_run(options_.name, store_url())) {
    goes_without = false;
    failure = Failure(failure->kind(),
                      std::string(failure->what()) +
                          "; the run around this one goes on without this lock already");
  }
  // If it is interrupted, a signal ends dlock.
  if (failure && !goes_without && failure->kind() != Failure::Kind::interrupted) {
    conclusion_.failed(*failure);
    wakeup_.give_up(true);  // the store timeout is used up
  }
  if (goes_without) {
    locks_.drop_lost();
    // What is given back once the command has ended is not in a hurry.
    wakeup_.finish_by(Clock::time_point::max());
    conclusion_.unprotected(locks_.asked().about + failure->what() +
                            "; running without the lock");
  }

  if (has_locks || goes_without) {
    co_await run_command();
  } else if (const auto signal = signals_.next_ending()) {
    interrupt(*signal);
  }
  if (additions_.extension != nullptr) co_await settle();
  // On every path, because we may hold the locks or places in their queues, and releasing
  // a lock that is not ours does nothing.
  co_await give_back();
  command_.reset();  // which reaps it
  if (notice_) co_await notice_->end(conclusion_.result());
  co_return conclusion_.whole_result();
}

void LockedRun::warn_of_host_name() const {
  const auto& name = host_name();
  const bool is_anyones =
      name == "(none)" || name == "localhost" || name.rfind("localhost.", 0) == 0;
  if (!is_anyones || (options_.splay.count() == 0 && !options_.spread)) return;
  speaker_.warning("warning: this host is called " + printable(name) +
                   ", as others may be: set DLOCK_HOST for --spread and --splay");
}

// Returns false if a signal interrupted the sleep.
asio::awaitable<bool> LockedRun::sleep_first() {
  const auto most = static_cast<std::uint64_t>(options_.jitter.count());
  if (options_.splay.count() == 0 && most == 0) co_return true;
  const auto splay = splay_for(host_name(), options_.name, options_.splay);
  const auto span = splay + milliseconds(most > 0 ? random_up_to(most) : 0);
  const char* both = most == 0 ? " (splay)" : " (splay and jitter)";
  speaker_.step("sleeping for " + for_people(span) +
                (options_.splay.count() > 0 ? both : " (jitter)"));
  const auto until = Clock::now() + span;
  const auto wait = signals_.interrupt_waits();
  co_await wakeup_.sleep_until(until);
  co_return Clock::now() >= until;
}

// Whether all locks were granted and the command has to run.
asio::awaitable<bool> LockedRun::obtain_locks() {
  std::optional<Answer> answer;
  {
    const auto start = Clock::now();
    const OnExit note_wait([&] { conclusion_.result().waited = elapsed_since(start); });
    const auto wait = signals_.interrupt_waits();
    auto listener = notice_ ? notice_->listener() : WaitListener();
    answer = co_await locks_.obtain(std::move(listener));
  }
  if (additions_.extension != nullptr && answer) {
    const bool is_needed = co_await needs_command(*answer);
    if (!is_needed) co_return false;
  }
  if (!are_granted(answer)) co_return false;
  const auto wait = signals_.interrupt_waits();
  answer = co_await locks_.make_sure();
  co_return are_granted(answer);
}

// `answer`: of the lock that was asked for last.
bool LockedRun::are_granted(const std::optional<Answer>& answer) {
  if (!answer) {
    conclusion_.taken_at_once();
  } else if (!std::holds_alternative<Grant>(*answer)) {
    conclusion_.not_obtained(*answer);
  } else {
    return true;
  }
  return false;
}

// Whether the extension wants to go on: it shares the result of another run, or may have
// it already.
asio::awaitable<bool> LockedRun::needs_command(const Answer& answer) {
  auto& store = *locks_.first().store;
  const auto& claim = locks_.first().holding.claim();
  const auto wait = signals_.interrupt_waits();
  if (const auto* deduplicated = std::get_if<Deduplicated>(&answer)) {
    co_await additions_.extension->joined(deduplicated->by, store, claim, wakeup_);
  }
  if (!std::holds_alternative<Grant>(answer)) co_return true;
  const bool is_needed = co_await additions_.extension->is_needed(store, claim, wakeup_);
  if (!is_needed) conclusion_.deduplicated();
  co_return is_needed;
}

void LockedRun::interrupt(int signal) {
  wakeup_.give_up(true);  // do not wait for the store any longer
  conclusion_.interrupted(signal);
}

// Under the locks that are held; without any if the run goes on without them.
asio::awaitable<void> LockedRun::run_command() {
  auto& result = conclusion_.result();
  result.is_protected = locks_.are_held() && locks_.first().store->protects();
  for (const auto& lock : locks_.all()) {
    if (!lock.is_held) continue;
    say_granted(lock.holding, lock.speaker);
    if (lock.holding.grant()->strength == 0) {
      lock.speaker.warning(
          "strength 0: the lock holds only as long as no server forgets it");
    }
  }
  if (locks_.first().is_held) result.grant = locks_.first().holding.grant();
  command_ = new_supervisor();
  command_->on_stop([this](std::optional<Loss> loss) {
    const auto why = conclusion_.why_stopped(loss, elapsed_since(started_at_));
    if (notice_) notice_->tell_stopping(why);
  });
  locks_.rely_on(*command_, [this](const std::string& message) {
    conclusion_.unprotected(message);
  });
  const auto started = co_await start(start_plan());
  if (!started) co_return;
  const auto end = co_await await_end(*started);
  conclusion_.ended(end);
}

std::unique_ptr<Supervisor> LockedRun::new_supervisor() {
  if (additions_.supervise) return additions_.supervise(signals_, wakeup_);
  const auto say = [this](const std::string& message) { speaker_.error(message); };
  if (guardian_ == nullptr) {
    return std::make_unique<DirectSupervisor>(options_.command, plan_, signals_, wakeup_,
                                              say);
  }
  return std::make_unique<GuardedSupervisor>(context_, *guardian_, plan_, signals_,
                                             wakeup_, say);
}

StartPlan LockedRun::start_plan() const {
  StartPlan plan;
  plan.environment = environment();
  plan.sessions = locks_.sessions();
  plan.deadline = locks_.deadline();
  if (additions_.capture != nullptr) plan.streams = additions_.capture->streams();
  return plan;
}

std::vector<std::string> LockedRun::environment() const {
  CommandSettings settings;
  settings.name = options_.name;
  settings.locks = locks_.held();
  settings.store = store_url();
  settings.name_space = invocation_.common.name_space;
  settings.run_id = options_.run_id;
  settings.config = invocation_.config;
  settings.passed_on = invocation_.passed_on;
  settings.held = dlock::environment("DLOCK_HELD");
  return command_environment(environ, settings);
}

void LockedRun::output_has_ended() {
  if (additions_.capture != nullptr) additions_.capture->command_ended();
}

// The last check before the command starts: nothing may start after a signal that would
// have ended dlock.
bool LockedRun::may_start() {
  if (const auto signal = signals_.next_ending()) {
    interrupt(*signal);
    return false;
  }
  if (locks_.last()) return true;
  conclusion_.not_started({SpawnFailure::Kind::too_late,
                           "too little of the lease was left to start the command"});
  return false;
}

asio::awaitable<std::optional<Spawned>> LockedRun::start(StartPlan plan) {
  auto notes = locks_.start_notes();
  plan.notes = notes;
  if (!may_start()) co_return std::nullopt;
  // A lease that expires is renewed from before the start, which can take long.
  const bool keeps_first = plan_.lease.has_value();
  try {
    if (additions_.capture != nullptr) additions_.capture->command_starts(context_);
    if (keeps_first) locks_.keep();
  } catch (const Failure& failure) {
    output_has_ended();
    conclusion_.not_started({SpawnFailure::Kind::no_resources, failure.what()});
    co_return std::nullopt;
  }
  if (notice_) notice_->command_starts();
  started_at_ = Clock::now();
  conclusion_.result().started = wall_now();
  const auto started = co_await command_->start(std::move(plan));
  notes.clear();  // others can use their descriptors now
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
    co_await locks_.stop_keeping();
    output_has_ended();
    conclusion_.not_started(*failure);
    co_return std::nullopt;
  }
  const auto& spawned = std::get<Spawned>(started);
  speaker_.step("started process " + std::to_string(spawned.pid) + ": " +
                printable_command(options_.command, 200));
  if (additions_.capture != nullptr) additions_.capture->command_runs();
  if (notice_) notice_->command_runs();
  if (additions_.has_started) {
    auto known = conclusion_.whole_result();
    known.outcome = RunOutcome::running;
    additions_.has_started(known, store_url());
  }
  if (!keeps_first) locks_.keep();
  co_return spawned;
}

// Waits for the command to end, and for renewals that are still in progress.
asio::awaitable<Ended> LockedRun::await_end(const Spawned& spawned) {
  // Runs concurrently with the supervision: a slow store must not delay signals.
  Wakeup noting(context_);
  bool noted = locks_.held().empty();
  if (!noted) {
    // The arguments have to outlive the call, which only creates the coroutine.
    asio::co_spawn(context_, locks_.started(spawned, noting),
                   [&](std::exception_ptr error) {
                     noted = true;
                     warn_not_recorded(error);
                     wakeup_.notify();
                   });
  }
  auto end = co_await command_->ended();
  conclusion_.command_ended_at(Clock::now());
  output_has_ended();
  if (notice_) notice_->tell_stopping("releasing the lock");
  conclusion_.result().ran = elapsed_since(started_at_);
  noting.give_up(true);
  while (!noted) co_await wakeup_.wait_until(Clock::time_point::max());
  co_await locks_.stop_keeping();
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

// Nothing ran under a lock that the run went on without.
std::optional<RunEnd> LockedRun::recorded_end(const RunLock& lock) const {
  if (!lock.is_held) return std::nullopt;
  auto end = conclusion_.recorded_end(lock, additions_.extension != nullptr);
  if (end) end->is_shared = is_shared_;
  return end;
}

asio::awaitable<void> LockedRun::settle() {
  if (!recorded_end(locks_.first())) co_return;
  const auto wait = signals_.interrupt_waits();
  const bool counts =
      co_await additions_.extension->settle(conclusion_.result(), *locks_.first().store,
                                            locks_.first().holding.claim(), wakeup_);
  is_shared_ = counts && !signals_.was_told_to_end();
}

asio::awaitable<void> LockedRun::give_back() {
  if (guardian_ != nullptr) {
    // What is left to do can wait for the server and for the next waiter to run.
    use_batch_scheduling();
    // Now, because the guardian takes as long to exit as the server takes to reply.
    if (command_) command_->let_go();
  }
  std::vector<Handover> all;
  for (auto* lock : locks_.to_give_back()) all.push_back({lock, recorded_end(*lock)});
  if (all.size() == 1) co_await release(all.front(), wakeup_);
  if (all.size() > 1) co_await release_together(all);
  for (const auto& one : all) tell_of(one);
  for (const auto& one : all) {
    if (!is_recorded(one)) co_await record_loss(*one.lock);
  }
}

// At once, because a silent store takes the whole store timeout for each, and the lease
// of the last one could end before its turn. A store that replies gets them in order.
asio::awaitable<void> LockedRun::release_together(std::vector<Handover>& all) {
  auto in_progress = all.size();
  for (auto& one : all) {
    asio::co_spawn(context_, release_with_own_wakeup(one), [&](std::exception_ptr error) {
      --in_progress;
      wakeup_.notify();
      if (error) std::rethrow_exception(error);
    });
  }
  while (in_progress > 0) co_await wakeup_.wait_until(Clock::time_point::max());
}

asio::awaitable<void> LockedRun::release_with_own_wakeup(Handover& one) {
  Wakeup wakeup(context_);
  wakeup.give_up(wakeup_.gives_up());
  co_await release(one, wakeup);
}

asio::awaitable<void> LockedRun::release(Handover& one, Wakeup& wakeup) {
  try {
    one.answer = co_await answer_to_release(*one.lock, one.end, wakeup);
    if (guardian_ != nullptr) ::sched_yield();  // for them
  } catch (const Failure& failure) {
    one.failure = failure;
  }
}

// The store knows whether the lease held to the end. If not, the run is recorded as lost.
asio::awaitable<Release> LockedRun::answer_to_release(RunLock& lock,
                                                      const std::optional<RunEnd>& end,
                                                      Wakeup& wakeup) {
  const auto answer = co_await lock.holding.release(end, wakeup);
  const auto loss = loss_found_by(answer);
  // Without an end, nothing is recorded as lost.
  if (!loss || !end) co_return answer;
  if (conclusion_.result().ran) conclusion_.found_lost(lock, *loss);
  auto lost = recorded_end(lock);
  if (!lost) lost = end;
  lost->lost = loss;
  lost->is_shared = false;
  co_return co_await lock.holding.release(lost, wakeup);
}

void LockedRun::tell_of(const Handover& one) {
  if (one.answer == Release::released) conclusion_.released(*one.lock, one.end);
  if (one.answer == Release::left) conclusion_.not_released(*one.lock, "");
  if (!one.failure || one.failure->kind() == Failure::Kind::interrupted) return;
  if (one.lock->is_held) {
    // The lease was not confirmed since it was renewed last.
    auto& is_protected = conclusion_.result().is_protected;
    if (is_protected && one.lock->store->leases_expire()) is_protected = false;
    conclusion_.not_released(*one.lock, one.failure->what());
  }
  if (!one.lock->is_held) conclusion_.not_withdrawn(*one.lock, one.failure->what());
}

// False if the run was lost and the store does not know it yet.
bool LockedRun::is_recorded(const Handover& one) {
  const bool is_lost = one.end && one.end->lost;
  return !is_lost || !one.failure || one.failure->kind() != Failure::Kind::unreachable;
}

// While the store has the lease, others take the run for one in progress, and skip
// theirs. The loss is therefore recorded as soon as the store replies again within that
// time, but dlock stays no longer than for another ttl, and not after a signal. What the
// store is not told then is noted on this machine.
asio::awaitable<void> LockedRun::record_loss(RunLock& lock) {
  constexpr milliseconds pause{100};
  const auto end = recorded_end(lock);
  const auto ttl = lock.holding.timing().ttl();
  const auto until = std::min(lock.holding.lease_end(), later(Clock::now(), ttl));
  const auto wait = signals_.interrupt_waits();
  const bool may_wait = !signals_.was_told_to_end() && !wakeup_.gives_up();
  if (may_wait && Clock::now() < until &&
      co_await lock.holding.release_by(until, end, pause, true)) {
    lock.speaker.step("recorded that the lock was lost");
    co_return;
  }
  RunInfo run;
  run.fence = lock.holding.grant()->fence;
  run.started = conclusion_.result().started.value_or(wall_now());
  run.ended = run.started + end->duration;
  set_end(run, *end);
  note_missed_end(lock.store->url(), lock.holding.claim().lock, run);
}

}  // namespace dlock
