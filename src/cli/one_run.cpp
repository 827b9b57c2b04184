#include "cli/one_run.hpp"

#include <sched.h>

#include <boost/asio/co_spawn.hpp>

#include "cli/lock_view.hpp"
#include "cli/nesting.hpp"
#include "cli/wait_notice.hpp"
#include "lock/acquire.hpp"
#include "lock/outage.hpp"
#include "supervise/direct_supervisor.hpp"
#include "supervise/guarded_supervisor.hpp"
#include "util/on_exit.hpp"
#include "util/process.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

// Tells the user what is of no concern to whoever obeys the lease.
class Messenger final : public LeaseWatcher {
 public:
  Messenger(LeaseWatcher& obeys, const Speaker& speaker, bool& is_store_silent)
      : obeys_(obeys), speaker_(speaker), is_store_silent_(is_store_silent) {}

  void extend(Clock::time_point deadline) override {
    is_store_silent_ = false;
    obeys_.extend(deadline);
  }
  void renewal_failed(Clock::time_point now) override {
    is_store_silent_ = true;
    obeys_.renewal_failed(now);
  }
  void reclaimed() override {
    speaker_.warning("the lease was gone from the store; set up again");
  }
  void forfeit(Loss loss) override { obeys_.forfeit(loss); }

 private:
  LeaseWatcher& obeys_;
  const Speaker& speaker_;
  bool& is_store_silent_;
};

Claim claim_for(const CommonOptions& common, const RunOptions& options) {
  Claim claim;
  claim.lock = {common.name_space, options.name};
  claim.token.bytes = random_bytes();
  claim.mode = options.shared ? Mode::shared : Mode::exclusive;
  claim.slots = options.slots;
  claim.ttl = options.ttl;
  claim.lock_delay = options.lock_delay;
  claim.reclaim = options.reclaim;
  claim.label = options.label;
  claim.command = options.command;
  claim.dedupe = options.dedupe;
  claim.min_hold = options.min_hold;
  claim.max_queue = options.max_queue;
  claim.supersedes = options.supersede;
  claim.replaces = options.replace;
  const char* held = std::getenv("DLOCK_HELD");
  if (held != nullptr) claim.held_above = fences_held_above(held, options.name);
  return claim;
}

}  // namespace

Run::Run(const RunParts& parts)
    : context_(parts.context),
      invocation_(parts.invocation),
      common_(parts.invocation.common),
      options_(parts.options),
      speaker_(options_.name, common_.quiet, common_.verbose),
      wakeup_(context_),
      signals_(context_, wakeup_, parts.held),
      store_(open_store(common_.store, parts.timing.budget(), context_)),
      claimant_(store_->claimant(claim_for(common_, options_))),
      timing_(parts.timing),
      plan_(parts.plan),
      guardian_(parts.guardian),
      errand_(parts.errand) {}

asio::awaitable<RunResult> Run::to_the_end() {
  std::optional<Failure> failure;
  std::optional<Grant> grant;
  try {
    // The timer by which the command is ended: if there is none, nothing starts.
    if (plan_.needs_tree()) wakeup_.prepare();
    if (co_await wait_out_jitter()) {
      const auto answer = co_await obtain();
      grant = co_await settled(answer);
      if (grant && !co_await make_sure(*grant)) grant.reset();
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
  auto end = end_for_the_record();
  if (errand_ != nullptr && end) co_await settle(end);
  co_await give_back(end);
  command_.reset();  // which reaps it
  co_return result_;
}

// The grant, if there is one and the command is to run under it.
asio::awaitable<std::optional<Grant>> Run::settled(const Answer& answer) {
  const auto* granted = std::get_if<Grant>(&answer);
  if (granted == nullptr) not_obtained(answer);
  if (errand_ == nullptr) co_return granted ? std::optional(*granted) : std::nullopt;
  const auto* deduplicated = std::get_if<Deduplicated>(&answer);
  bool runs = false;
  {
    const SignalInbox::InterruptibleWait wait(signals_);
    const auto& claim = claimant_->claim();
    if (granted) runs = co_await errand_->is_needed(*store_, claim, wakeup_);
    if (deduplicated) {
      co_await errand_->joined(deduplicated->by, *store_, claim, wakeup_);
    }
  }
  if (runs) co_return *granted;
  if (granted) conclude(Outcome::deduplicated, ExitStatus::success, "");
  co_return std::nullopt;
}

asio::awaitable<void> Run::settle(std::optional<RunEnd>& end) {
  const SignalInbox::InterruptibleWait wait(signals_);
  const bool counts =
      co_await errand_->settle(result_, *store_, claimant_->claim(), wakeup_);
  end->is_shared = counts && !signals_.was_told_to_end();
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
    if (tries == most_repeats) throw lease_too_short();
    const auto answer = co_await claimant_->ask(Queue::refuse, wakeup_);
    const auto* granted = std::get_if<Grant>(&answer);
    if (granted == nullptr) {
      not_obtained(answer);
      co_return false;
    }
    grant = *granted;
  }
  if (grant.broken) taken_at_once();
  co_return !grant.broken;
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
  const SignalInbox::InterruptibleWait wait(signals_);
  while (Clock::now() < until && !wakeup_.gives_up()) co_await wakeup_.wait_until(until);
  co_return Clock::now() >= until;
}

asio::awaitable<Answer> Run::obtain() {
  Patience patience;
  const auto start = Clock::now();
  if (options_.wait) patience.until = later(start, *options_.wait);
  patience.waits_for_store = options_.waits_for_store;
  WaitNotice notice(speaker_, patience.until.value_or(start));
  patience.waiting = [&](const Busy& busy) {
    return notice.waiting(
        [&](std::size_t columns) { return waiting_text(busy, columns); });
  };
  if (options_.replace) {
    patience.clearing = [this](const Busy& busy) { return end_what_is_left(busy); };
  }
  patience.retrying = [&](const Failure& failure) { notice.store_absent(failure); };
  speaker_.step("asking " + printable(store_->url()));
  const OnExit note_wait([&] { result_.waited = since(start); });
  const SignalInbox::InterruptibleWait wait(signals_);
  co_return co_await acquire(*claimant_, patience, wakeup_);
}

// Of runs whose dlock is gone, from which this one has taken the lock. Returns when to
// look again: only a store that knows processes can tell, and does not when one dies.
asio::awaitable<milliseconds> Run::end_what_is_left(const Busy& busy) {
  constexpr milliseconds look_every{1000};
  constexpr milliseconds while_it_ends{100};
  std::vector<Fence> fences;
  for (const auto& holder : busy.holders) {
    if (holder.dlock_gone && holder.broken) fences.push_back(holder.fence);
  }
  if (!fences.empty()) {
    const auto lock = claimant_->claim().lock;
    const auto broken = co_await store_->break_leases(lock, fences, wakeup_);
    for (const auto& one : broken) orphans_.end(one);
    co_return while_it_ends;
  }
  co_return store_->leases_run_out() ? milliseconds::max() : look_every;
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

StartPlan Run::start_plan(const std::optional<Grant>& grant) const {
  StartPlan plan;
  plan.environment = environment_for(grant);
  plan.session = grant ? claimant_->session() : -1;
  if (grant) plan.deadline = grant->deadline;
  if (errand_ != nullptr) plan.output = errand_->output();
  return plan;
}

// The last look before the command starts: nothing may after a signal that would have
// ended us.
bool Run::may_start(const std::optional<Grant>& grant) {
  if (const auto signal = signals_.next_ending()) {
    interrupted(*signal);
    return false;
  }
  if (!grant || lasts(*grant)) return true;
  not_started(SpawnFailure{SpawnFailure::Kind::too_late,
                           "the lease ran low before the command could start"});
  return false;
}

// Without a grant the command runs all the same, and holds nothing.
asio::awaitable<void> Run::run_command(const std::optional<Grant>& grant) {
  result_.grant = grant;
  result_.is_protected = grant && store_->protects();
  if (grant) {
    speaker_.step("granted, fence " + std::to_string(grant->fence.number) + ", slot " +
                  std::to_string(grant->slot) +
                  (store_->protects() ? "" : " (none: excludes nobody)"));
    if (grant->strength == 0) {
      speaker_.warning("strength 0: the lock holds as long as no server forgets it");
    }
  }
  command_ = supervisor();
  auto plan = start_plan(grant);
  OutagePolicy lease(options_.on_outage, timing_, plan.deadline, *command_,
                     [this](const std::string& message) { unprotected(message); });
  Messenger messenger(lease, speaker_, is_store_silent_);
  if (grant && store_->protects()) {
    keeper_.emplace(context_, *claimant_, store_->leases_run_out(), timing_, messenger);
  }
  const auto started = co_await start(std::move(plan), grant);
  if (!started) co_return;
  const auto end = co_await command_end(*started, grant);
  conclude_command(end, lease);
}

// What was started, if anything was.
asio::awaitable<std::optional<Spawned>> Run::start(StartPlan plan,
                                                   const std::optional<Grant>& grant) {
  auto note = grant ? claimant_->start_note() : std::nullopt;
  if (note) plan.note = &*note;
  if (!may_start(grant)) co_return std::nullopt;
  // A lease that runs out is kept from before the start, which can take its time.
  const bool keeps_first = guardian_ != nullptr;
  try {
    if (errand_ != nullptr) errand_->command_starts(context_);
    if (keeper_ && keeps_first) keeper_->start(grant->sent_at);
  } catch (const Failure& failure) {
    if (errand_ != nullptr) errand_->command_ended();
    not_started(SpawnFailure{SpawnFailure::Kind::no_resources, failure.what()});
    co_return std::nullopt;
  }
  started_at_ = Clock::now();
  result_.started = wall_now();
  const auto started = co_await command_->start(std::move(plan));
  note.reset();  // whose descriptor others can use now
  if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
    co_await stop_keeping();
    if (errand_ != nullptr) errand_->command_ended();
    not_started(*failure);
    co_return std::nullopt;
  }
  const auto& spawned = std::get<Spawned>(started);
  speaker_.step("started process " + std::to_string(spawned.pid) + ": " +
                printable_command(options_.command, 200));
  if (errand_ != nullptr) errand_->command_runs();
  if (keeper_ && !keeps_first) keeper_->start(grant->sent_at);
  co_return spawned;
}

// Waits for it, and for whatever of the lease is still under way then.
asio::awaitable<Ended> Run::command_end(const Spawned& spawned,
                                        const std::optional<Grant>& grant) {
  // Beside the supervision: a store that is slow to answer must not hold up signals.
  Wakeup noting(context_);
  bool noted = !grant;
  if (grant) {
    // What it is told of has to outlive the call, which only makes the coroutine.
    asio::co_spawn(context_, claimant_->started(spawned, noting),
                   [&](std::exception_ptr error) {
                     noted = true;
                     warn_not_noted(error);
                     wakeup_.notify();
                   });
  }
  auto end = co_await command_->ended();
  if (errand_ != nullptr) errand_->command_ended();
  result_.ran = since(started_at_);
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

// What it means for the run that its command has ended so.
void Run::conclude_command(const Ended& end, const OutagePolicy& lease) {
  const bool had_lease = result_.grant.has_value();
  const bool has_held = lease.has_held(Clock::now());
  ended_in_outage_ = lease.is_in_outage();
  if (had_lease) {
    result_.grant->deadline = lease.deadline();
    if (!has_held) result_.is_protected = false;
  }
  if (lease.lost()) result_.reason = lease.lost();
  ended(end);
  // Nobody has ended it for that (this process was stopped, say), but nobody knows either
  // whether others had the lock by then.
  if (had_lease && !has_held && !ended_in_outage_ && !end.lost) {
    lost(Loss::unconfirmed, CommandThen::may_have_outlived);
  }
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

// The store knows best whether the lease was ours to the end; if it was not, that is what
// is recorded of the run.
asio::awaitable<Release> Run::release(std::optional<RunEnd>& end) {
  const auto answer = co_await claimant_->release(end, wakeup_);
  const auto loss = loss_told_by(answer);
  if (!loss) co_return answer;
  if (result_.ran) found_lost(*loss);
  if (auto known = end_for_the_record()) end = known;
  end->lost = loss;
  co_return co_await claimant_->release(end, wakeup_);
}

void Run::found_lost(Loss loss) {
  if (!ended_in_outage_) {
    lost(loss, CommandThen::had_ended);
    return;
  }
  result_.reason = loss;
  result_.is_protected = false;
  unprotected("the lock was lost (" + loss_name(loss) +
              ") in an outage of the store (--on-outage run)");
}

asio::awaitable<void> Run::give_back(std::optional<RunEnd> end) {
  if (guardian_ != nullptr) {
    // What is left to do here can wait for the server, and for whoever is next in line.
    be_modest();
    // Now, for to end takes the guardian as long as the server to answer.
    if (command_) command_->let_go();
  }
  try {
    const auto released = co_await release(end);
    if (guardian_ != nullptr) ::sched_yield();  // for them
    if (released == Release::released) speaker_.step(release_step(end));
    if (released == Release::left) {
      speaker_.warning("because of the lock delay the lock is not given back; " +
                       how_it_ends());
    }
  } catch (const Failure& failure) {
    const bool is_interrupted = failure.kind() == Failure::Kind::interrupted;
    if (!is_interrupted && result_.grant && !has_no_lease()) {
      speaker_.warning("cannot give the lock back: " + std::string(failure.what()) +
                       "; " + how_it_ends());
    }
  }
}

}  // namespace dlock
