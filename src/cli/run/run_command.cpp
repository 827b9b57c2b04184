// Run: runs the command while the lease is kept.

#include <boost/asio/co_spawn.hpp>

#include "cli/run/one_run.hpp"
#include "lease/lease_watcher.hpp"
#include "supervise/guardian.hpp"
#include "supervise/supervisor.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Forwards lease events and prints those that only matter to the user.
class Messenger final : public LeaseWatcher {
 public:
  Messenger(LeaseWatcher& obeys, const Speaker& speaker,
            std::optional<std::string>& why_not_renewed)
      : obeys_(obeys), speaker_(speaker), why_not_renewed_(why_not_renewed) {}

  void extend(Clock::time_point deadline) override {
    why_not_renewed_.reset();
    obeys_.extend(deadline);
  }
  void renewal_failed(Clock::time_point now, const std::string& why) override {
    why_not_renewed_ = why;
    obeys_.renewal_failed(now, why);
  }
  void reclaimed() override {
    speaker_.warning("the lease was missing from the store and was restored");
  }
  void forfeit(Loss loss) override { obeys_.forfeit(loss); }

 private:
  LeaseWatcher& obeys_;
  const Speaker& speaker_;
  std::optional<std::string>& why_not_renewed_;
};

}  // namespace

std::unique_ptr<Supervisor> Run::supervisor() {
  const auto say = [this](const std::string& message) { speaker_.error(message); };
  if (guardian_ == nullptr) {
    return std::make_unique<DirectSupervisor>(options_.command, plan_, signals_, wakeup_,
                                              say);
  }
  return std::make_unique<GuardedSupervisor>(context_, *guardian_, plan_, signals_,
                                             wakeup_, say);
}

StartPlan Run::start_plan(const std::optional<Grant>& grant) const {
  StartPlan plan;
  plan.environment = environment_for(grant);
  plan.session = grant ? claimant_->session() : -1;
  if (grant) plan.deadline = grant->deadline;
  if (run_hooks_ != nullptr) plan.output = run_hooks_->output();
  return plan;
}

// The last check before the command starts: nothing may start after a signal that would
// have ended dlock.
bool Run::may_start(const std::optional<Grant>& grant) {
  if (const auto signal = signals_.next_ending()) {
    interrupted(*signal);
    return false;
  }
  if (!grant || lasts(*grant)) return true;
  not_started(SpawnFailure{SpawnFailure::Kind::too_late,
                           "too little of the lease was left to start the command"});
  return false;
}

// Without a grant the command runs without the lock.
asio::awaitable<void> Run::run_command(const std::optional<Grant>& grant) {
  result_.grant = grant;
  result_.is_protected = grant && store_->protects();
  if (grant) {
    speaker_.step("granted, fence " + std::to_string(grant->fence.number) + ", slot " +
                  std::to_string(grant->slot) +
                  (store_->protects() ? "" : " (none: does not exclude others)"));
    if (grant->strength == 0) {
      speaker_.warning("strength 0: the lock holds only as long as no server forgets it");
    }
  }
  command_ = supervisor();
  auto plan = start_plan(grant);
  OutagePolicy lease(options_.on_outage, timing_, plan.deadline, *command_,
                     [this](const std::string& message) { unprotected(message); });
  Messenger messenger(lease, speaker_, why_not_renewed_);
  if (grant && store_->protects()) {
    keeper_.emplace(context_, *claimant_, store_->leases_expire(), timing_, messenger);
  }
  const auto started = co_await start(std::move(plan), grant);
  if (!started) co_return;
  const auto end = co_await command_end(*started, grant);
  conclude_command(end, lease);
}

// Returns the process, if it could be started.
asio::awaitable<std::optional<Spawned>> Run::start(StartPlan plan,
                                                   const std::optional<Grant>& grant) {
  auto note = grant ? claimant_->start_note() : std::nullopt;
  if (note) plan.note = &*note;
  if (!may_start(grant)) co_return std::nullopt;
  // A lease that expires is renewed from before the start, which can take long.
  const bool keeps_first = guardian_ != nullptr;
  try {
    if (run_hooks_ != nullptr) run_hooks_->command_starts(context_);
    if (keeper_ && keeps_first) keeper_->start(grant->sent_at);
  } catch (const Failure& failure) {
    if (run_hooks_ != nullptr) run_hooks_->command_ended();
    not_started(SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()});
    co_return std::nullopt;
  }
  started_at_ = Clock::now();
  result_.started = wall_now();
  const auto started = co_await command_->start(std::move(plan));
  note.reset();  // others can use its descriptor now
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
    co_await stop_keeping();
    if (run_hooks_ != nullptr) run_hooks_->command_ended();
    not_started(*failure);
    co_return std::nullopt;
  }
  const auto& spawned = std::get<Spawned>(started);
  speaker_.step("started process " + std::to_string(spawned.pid) + ": " +
                printable_command(options_.command, 200));
  if (run_hooks_ != nullptr) run_hooks_->command_runs();
  if (keeper_ && !keeps_first) keeper_->start(grant->sent_at);
  co_return spawned;
}

// Waits for the command to end, and for renewals that are still in progress.
asio::awaitable<Ended> Run::command_end(const Spawned& spawned,
                                        const std::optional<Grant>& grant) {
  // Runs concurrently with the supervision: a slow store must not delay signals.
  Wakeup noting(context_);
  bool noted = !grant;
  if (grant) {
    // The arguments have to outlive the call, which only creates the coroutine.
    asio::co_spawn(context_, claimant_->started(spawned, noting),
                   [&](std::exception_ptr error) {
                     noted = true;
                     warn_not_recorded(error);
                     wakeup_.notify();
                   });
  }
  auto end = co_await command_->ended();
  ended_at_ = Clock::now();
  if (run_hooks_ != nullptr) run_hooks_->command_ended();
  result_.ran = elapsed_since(started_at_);
  noting.give_up(true);
  while (!noted) co_await wakeup_.wait_until(Clock::time_point::max());
  co_await stop_keeping();
  co_return end;
}

asio::awaitable<void> Run::stop_keeping() {
  if (!keeper_) co_return;
  keeper_->stop();
  co_await keeper_->ended(wakeup_);
}

// Derives the run's result from the end of its command.
void Run::conclude_command(const Ended& end, const OutagePolicy& lease) {
  const bool had_lease = result_.grant.has_value();
  // Not until now: renewals in progress may have taken until after the deadline.
  const bool has_held = lease.has_held(ended_at_);
  ended_in_outage_ = lease.is_in_outage();
  if (had_lease) {
    result_.grant->deadline = lease.deadline();
    if (!has_held) result_.is_protected = false;
  }
  if (lease.lost()) result_.reason = lease.lost();
  ended(end);
  // The command was not ended because of the lease (for example because this process was
  // stopped), but others may have had the lock by then.
  if (had_lease && !has_held && !ended_in_outage_ && !end.lost) {
    lost(Loss::unconfirmed, CommandFate::may_have_outlived);
  }
}

void Run::warn_not_recorded(const std::exception_ptr& error) const {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) return;  // it has ended already
    speaker_.warning("cannot record the command's process: " +
                     std::string(failure.what()));
  }
}

}  // namespace dlock
