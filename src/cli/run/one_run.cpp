#include "cli/run/one_run.hpp"

#include <sched.h>

#include "cli/args/nesting.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/run/wait_notice.hpp"
#include "cli/show/lock_view.hpp"
#include "lease/acquire.hpp"
#include "util/on_exit.hpp"
#include "util/process.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

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
  if (held != nullptr) claim.outer_fences = outer_fences_of(held, options.name);
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
      store_(opened_store(common_, parts.timing.budget(), context_, options_.name)),
      claimant_(store_->claimant(claim_for(common_, options_))),
      timing_(parts.timing),
      plan_(parts.plan),
      guardian_(parts.guardian),
      run_hooks_(parts.run_hooks) {}

asio::awaitable<RunResult> Run::execute() {
  std::optional<Failure> failure;
  std::optional<Grant> grant;
  try {
    // The timer that ends the command: if it cannot be created, nothing starts.
    if (plan_.needs_tree()) wakeup_.prepare();
    if (co_await sleep_for_jitter()) {
      const auto answer = co_await obtain();
      grant = co_await grant_to_use(answer);
      if (grant && !co_await ensure_enough_is_left(*grant)) grant.reset();
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
  // On every path, because we may hold the lock or a place in its queue, and releasing a
  // lock that is not ours does nothing.
  auto end = recorded_end();
  if (run_hooks_ != nullptr && end) co_await settle(end);
  co_await give_back(end);
  command_.reset();  // which reaps it
  co_return result_;
}

// The grant, if the lock was granted and the command needs to run.
asio::awaitable<std::optional<Grant>> Run::grant_to_use(const Answer& answer) {
  const auto* granted = std::get_if<Grant>(&answer);
  if (granted == nullptr) not_obtained(answer);
  if (run_hooks_ == nullptr) co_return granted ? std::optional(*granted) : std::nullopt;
  const auto* deduplicated = std::get_if<Deduplicated>(&answer);
  bool runs = false;
  {
    const SignalInbox::InterruptibleWait wait(signals_);
    const auto& claim = claimant_->claim();
    if (granted) runs = co_await run_hooks_->is_needed(*store_, claim, wakeup_);
    if (deduplicated) {
      co_await run_hooks_->joined(deduplicated->by, *store_, claim, wakeup_);
    }
  }
  if (runs) co_return *granted;
  if (granted) conclude(Outcome::deduplicated, ExitStatus::success, "");
  co_return std::nullopt;
}

asio::awaitable<void> Run::settle(std::optional<RunEnd>& end) {
  const SignalInbox::InterruptibleWait wait(signals_);
  const bool counts =
      co_await run_hooks_->settle(result_, *store_, claimant_->claim(), wakeup_);
  end->is_shared = counts && !signals_.was_told_to_end();
}

// Whether the command is to run though the store is unavailable.
bool Run::may_start_without(const Failure& failure) const {
  return options_.on_outage == OnOutage::run &&
         failure.kind() == Failure::Kind::unreachable;
}

// Ensures that enough of the lease is left to start a command, by requesting it again if
// necessary (this process was stopped, or the machine was suspended). Returns false if
// the lock was granted to somebody else in the meantime.
asio::awaitable<bool> Run::ensure_enough_is_left(Grant& grant) {
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
  return !store_->leases_expire() ||
         grant.deadline - Clock::now() >= timing_.needed_to_start();
}

// Returns false if a signal interrupted the sleep.
asio::awaitable<bool> Run::sleep_for_jitter() {
  if (options_.jitter.count() == 0) co_return true;
  const auto most = static_cast<std::uint64_t>(options_.jitter.count());
  const milliseconds jitter(random_up_to(most));
  speaker_.step("sleeping for " + for_people(jitter) + " (jitter)");
  const auto until = Clock::now() + jitter;
  const SignalInbox::InterruptibleWait wait(signals_);
  co_await wakeup_.sleep_until(until);
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
    patience.clearing = [this](const Busy& busy) { return end_leftovers(busy); };
  }
  patience.retrying = [&](const Failure& failure) { notice.store_absent(failure); };
  speaker_.step("contacting " + printable(store_->url()));
  const OnExit note_wait([&] { result_.waited = elapsed_since(start); });
  const SignalInbox::InterruptibleWait wait(signals_);
  co_return co_await acquire(*claimant_, patience, wakeup_);
}

// Ends the processes of runs whose dlock is gone and from which this run has taken the
// lock. Returns when to check again: only a store that knows processes can tell, and it
// sends no notification when one dies.
asio::awaitable<milliseconds> Run::end_leftovers(const Busy& busy) {
  constexpr milliseconds look_every{1000};
  constexpr milliseconds while_it_ends{100};
  std::vector<Fence> fences;
  for (const auto& holder : busy.holders) {
    if (holder.dlock_gone && holder.broken) fences.push_back(holder.fence);
  }
  if (!fences.empty()) {
    const auto lock = claimant_->claim().lock;
    const Break order{fences};  // has to outlive the call
    const auto broken = co_await store_->break_leases(lock, order, wakeup_);
    for (const auto& one : broken) orphans_.end(one);
    co_return while_it_ends;
  }
  co_return store_->leases_expire() ? milliseconds::max() : look_every;
}

// Warns that the command runs, or may be running, without the lock, as the user
// requested.
void Run::unprotected(const std::string& message) {
  result_.message = message;
  speaker_.warning("warning: " + message);
}

// The store knows whether the lease held to the end; if it did not, the run is recorded
// as lost.
asio::awaitable<Release> Run::release(std::optional<RunEnd>& end) {
  const auto answer = co_await claimant_->release(end, wakeup_);
  const auto loss = loss_found_by(answer);
  if (!loss) co_return answer;
  if (result_.ran) found_lost(*loss);
  if (auto known = recorded_end()) end = known;
  end->lost = loss;
  co_return co_await claimant_->release(end, wakeup_);
}

void Run::found_lost(Loss loss) {
  if (!ended_in_outage_) {
    lost(loss, CommandFate::had_ended);
    return;
  }
  result_.reason = loss;
  result_.is_protected = false;
  unprotected("the lock was lost (" + loss_name(loss) +
              ") during a store outage (--on-outage run)");
}

asio::awaitable<void> Run::give_back(std::optional<RunEnd> end) {
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
    if (released == Release::released) speaker_.step(release_step(end));
    if (released == Release::left) warn_of_lease_left("");
  } catch (const Failure& failure) {
    const bool is_interrupted = failure.kind() == Failure::Kind::interrupted;
    if (!is_interrupted && result_.grant && !has_no_lease()) {
      warn_of_lease_left(failure.what());
    }
    is_to_be_recorded = end && end->lost && failure.kind() == Failure::Kind::unreachable;
  }
  if (is_to_be_recorded) co_await record_loss(end);
}

// While the store has the lease, others take the run for one in progress, and skip
// theirs. So the loss is recorded as soon as the store replies again within that time,
// but dlock stays no longer than for another ttl, and not after a signal.
asio::awaitable<void> Run::record_loss(const std::optional<RunEnd>& end) {
  if (!result_.grant || signals_.was_told_to_end()) co_return;
  constexpr milliseconds pause{100};
  const auto until = std::min(lease_end(), later(Clock::now(), timing_.ttl()));
  const SignalInbox::InterruptibleWait wait(signals_);
  while (Clock::now() < until && !wakeup_.gives_up()) {
    try {
      // This waits for the store, because a signal cannot interrupt a release.
      co_await store_->inspector().inspect(claimant_->claim().lock, wakeup_);
      co_await claimant_->release(end, wakeup_);
      speaker_.step("recorded that the lock was lost");
      co_return;
    } catch (const Failure&) {
      // It does not reply yet.
    }
    const auto next = std::min(until, later(Clock::now(), pause));
    co_await wakeup_.sleep_until(next);
  }
}

}  // namespace dlock
