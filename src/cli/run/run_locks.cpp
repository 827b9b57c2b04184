#include "cli/run/run_locks.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "rules/look.hpp"
#include "store/open.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// The options of the run as they apply to another of its locks.
RunOptions options_for(const AlsoLock& lock, RunOptions options) {
  options.name = lock.name;
  options.slots = lock.slots;
  options.has_slots = lock.has_slots;
  options.shared = lock.shared;
  options.dedupe.reset();
  return options;
}

// Whether no log should have a line of the wait. With -E 0, cron sends no mail of a lock
// that is held, and calls of `cache` wait for each other as a matter of course.
bool is_no_news(const RunOptions& options, const Claim& claim) {
  return options.conflict_exit_code == 0 || (claim.dedupe && claim.dedupe->joins);
}

std::string spoken_name(const std::string& lock, const std::string& run) {
  return lock == run ? run : run + ": " + lock;
}

}  // namespace

RunLock::RunLock(asio::io_context& context, Wakeup& wakeup, const CommonOptions& common,
                 const RunOptions& own, const std::string& run, const LeaseTiming& timing)
    : about(own.name == run ? "" : printable_name(own.name) + ": "),
      speaker(spoken_name(own.name, run), common.quiet, common.verbose),
      store(opened_store(common, timing.budget(), context, spoken_name(own.name, run))),
      holding(context, wakeup, *store, new_claim(common, own), timing),
      has_slots(own.has_slots) {}

RunLocks::RunLocks(asio::io_context& context, Wakeup& wakeup, const CommonOptions& common,
                   const RunOptions& options, const LeaseTiming& timing)
    : context_(context),
      wakeup_(wakeup),
      common_(common),
      options_(options),
      alarm_(wakeup) {
  locks_.emplace_back(context, wakeup, common, options, options.name, timing);
  for (const auto& also : options.also) {
    locks_.emplace_back(context, wakeup, common, options_for(also, options), options.name,
                        timing);
  }
  for (auto& lock : locks_) in_order_.push_back(&lock);
  std::ranges::sort(in_order_, {}, &RunLock::name);
  asked_ = in_order_.front();
}

asio::awaitable<std::optional<Answer>> RunLocks::obtain(WaitListener listener) {
  listener_ = std::move(listener);
  std::optional<Answer> answer;
  std::optional<Failure> failure;
  try {
    answer = co_await obtain_in_order();
  } catch (const Failure& error) {
    failure = error;
  }
  // Before they can be asked for again, or released.
  co_await stop_keeping();
  if (auto* broken = broken_one()) {
    asked_ = broken;
    co_return std::nullopt;
  }
  if (failure) throw *failure;
  co_return answer;
}

asio::awaitable<std::optional<Answer>> RunLocks::obtain_in_order() {
  const auto until = end_of_wait(options_);
  std::optional<Answer> answer;
  if (in_order_.size() > 1) answer = co_await foregone_answer();
  if (answer) co_return answer;
  for (auto* lock : in_order_) {
    asked_ = lock;
    answer = co_await obtain_one(*lock, until);
    lock->is_held = lock->holding.grant().has_value();
    if (!lock->is_held || lock == in_order_.back() || broken_one() != nullptr) break;
    if (!lock->store->protects()) continue;
    lock->holding.prepare_to_keep(&alarm_);
    lock->holding.keep();
  }
  co_return answer;
}

// An answer that waiting for the first lock cannot change, though it is about a later
// one. Otherwise a run that is to be skipped would be told that another lock is held, and
// one that can never be granted would wait first. The later lock is only looked at: a run
// that had it for a moment would be in progress for others, and may fail to release it.
asio::awaitable<std::optional<Answer>> RunLocks::foregone_answer() {
  const auto queue = options_.wait ? Queue::join : Queue::stay_out;
  for (auto* lock : in_order_) {
    const auto& claim = lock->holding.claim();
    const bool is_possible = claim.dedupe || !claim.outer_fences.empty();
    if (!is_possible || lock == in_order_.front()) continue;
    // Its own may have files open to read them, or keep a connection while the run waits.
    const bool uses_own = lock->store->leases_expire() && !options_.wait;
    const auto budget = lock->holding.timing().budget();
    const auto other = uses_own ? nullptr : open_store(common_.store, budget, context_);
    try {
      auto& store = other ? *other : *lock->store;
      const auto found = co_await store.inspector().inspect_for_sure(claim.lock, wakeup_);
      auto answer = rules::foregone_answer(found, claim, queue, host_name());
      if (!answer) continue;
      asked_ = lock;
      co_return answer;
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::interrupted) throw;
      // Whatever it is, it is reported when the locks are requested.
    }
  }
  co_return std::nullopt;
}

asio::awaitable<Answer> RunLocks::obtain_one(RunLock& lock,
                                             std::optional<Clock::time_point> until) {
  Patience patience;
  patience.until = until;
  patience.waits_for_store = options_.waits_for_store;
  if (options_.replace) {
    patience.clearing = [this, &lock](const Busy& busy) {
      return end_leftovers(lock, busy);
    };
  }
  lock.is_asked = true;
  const bool says_nothing =
      is_no_news(options_, lock.holding.claim()) && ::isatty(STDERR_FILENO) == 0;
  Speaker silent(spoken_name(lock.name(), options_.name), true, common_.verbose);
  co_return co_await dlock::obtain(lock.holding, std::move(patience),
                                   says_nothing ? silent : lock.speaker, listener_);
}

// Kills the processes of runs whose dlock has exited and from which this run has taken
// the lock. Returns when to check again: only a store that knows processes can tell, and
// it sends no notification when one dies.
asio::awaitable<milliseconds> RunLocks::end_leftovers(RunLock& lock, const Busy& busy) {
  constexpr milliseconds look_every{1000};
  constexpr milliseconds while_it_ends{100};
  std::vector<Fence> fences;
  for (const auto& holder : busy.holders) {
    if (holder.dlock_gone && holder.broken) fences.push_back(holder.fence);
  }
  if (!fences.empty()) {
    const auto name = lock.holding.claim().lock;
    const Break order{fences};  // has to outlive the call
    const auto broken = co_await lock.store->break_leases(name, order, wakeup_);
    for (const auto& one : broken) orphans_.end(one);
    co_return while_it_ends;
  }
  co_return lock.store->leases_expire() ? milliseconds::max() : look_every;
}

asio::awaitable<std::optional<Answer>> RunLocks::make_sure() {
  std::optional<Answer> answer;
  for (auto* lock : in_order_) {
    auto& holding = lock->holding;
    asked_ = lock;
    while (!holding.lasts(holding.timing().needed_to_start())) {
      lock->is_held = false;
      answer = co_await holding.ask_again();
      lock->is_held = holding.grant().has_value();
      if (!lock->is_held) co_return answer;
    }
    answer = *holding.grant();
    if (holding.grant()->broken) co_return std::nullopt;
  }
  co_return answer;
}

void RunLocks::drop_lost() {
  for (auto& lock : locks_) {
    lock.is_held =
        lock.is_held && lock.holding.lasts(lock.holding.timing().needed_to_start());
  }
}

bool RunLocks::are_held() const { return std::ranges::all_of(locks_, &RunLock::is_held); }

bool RunLocks::last() const {
  return std::ranges::all_of(locks_, [](const RunLock& lock) {
    const auto& holding = lock.holding;
    return !lock.is_held || holding.lasts(holding.timing().needed_to_start());
  });
}

Clock::time_point RunLocks::deadline() const {
  auto deadline = Clock::time_point::max();
  for (const auto& lock : locks_) {
    if (lock.is_held) deadline = std::min(deadline, lock.holding.grant()->deadline);
  }
  return deadline;
}

std::vector<HeldLock> RunLocks::held() const {
  std::vector<HeldLock> held;
  for (const auto& lock : locks_) {
    if (lock.is_held)
      held.push_back({lock.name(), *lock.holding.grant(), lock.has_slots});
  }
  return held;
}

std::vector<int> RunLocks::sessions() const {
  std::vector<int> sessions;
  for (const auto& lock : locks_) {
    const int session = lock.is_held ? lock.holding.claimant().session() : -1;
    if (session >= 0) sessions.push_back(session);
  }
  return sessions;
}

std::vector<StartNote> RunLocks::start_notes() {
  std::vector<StartNote> notes;
  for (auto& lock : locks_) {
    auto note = lock.is_held ? lock.holding.claimant().start_note() : std::nullopt;
    if (note) notes.push_back(std::move(*note));
  }
  return notes;
}

asio::awaitable<void> RunLocks::started(const CommandProcess& process, Wakeup& wakeup) {
  for (auto& lock : locks_) {
    if (lock.is_held) co_await lock.holding.claimant().started(process, wakeup);
  }
}

void RunLocks::rely_on(LeaseWatcher& command,
                       const std::function<void(const std::string&)>& warn) {
  group_.emplace(command);
  for (auto& lock : locks_) {
    if (!lock.is_held) continue;
    auto& member = group_->add(lock.holding.grant()->deadline);
    const auto warn_of_it = [warn, &lock](const std::string& message) {
      warn(lock.about + message);
    };
    lock.policy.emplace(options_.on_outage, lock.holding, member, warn_of_it,
                        lock.speaker);
    if (lock.store->protects()) lock.holding.prepare_to_keep(&*lock.policy);
  }
}

void RunLocks::keep() {
  for (auto& lock : locks_) {
    if (lock.policy) lock.holding.keep();
  }
}

asio::awaitable<void> RunLocks::stop_keeping() {
  for (auto& lock : locks_) lock.holding.stop_renewing();
  for (auto& lock : locks_) co_await lock.holding.stop_keeping();
}

// If none is reported lost, the one whose lease expires first was not renewed in time.
RunLock& RunLocks::lost_by(Loss loss) {
  auto* found = &first();
  auto ends_first = Clock::time_point::max();
  for (auto& lock : locks_) {
    if (!lock.policy) continue;
    if (lock.holding.lost() == loss) return lock;
    if (lock.policy->deadline() >= ends_first) continue;
    ends_first = lock.policy->deadline();
    found = &lock;
  }
  return *found;
}

std::vector<RunLock*> RunLocks::to_give_back() const {
  std::vector<RunLock*> locks;
  std::copy_if(in_order_.rbegin(), in_order_.rend(), std::back_inserter(locks),
               [](const RunLock* lock) { return lock->is_asked; });
  return locks;
}

RunLock* RunLocks::broken_one() {
  const auto broken = std::ranges::find_if(locks_, [](const auto& lock) {
    const auto& grant = lock.holding.grant();
    return lock.holding.lost() == Loss::broken || (grant && grant->broken);
  });
  return broken == locks_.end() ? nullptr : &*broken;
}

}  // namespace dlock
