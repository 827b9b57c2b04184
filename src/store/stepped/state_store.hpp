// Where a store that is built on the rules keeps the states of its locks. Such a store is
// this interface, and a codec for rules::State if it keeps bytes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/claimant.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "rules/look.hpp"
#include "rules/step.hpp"
#include "rules/watches.hpp"
#include "util/failure.hpp"

namespace dlock::stepped {

// Calls that wait end by `until` with a Failure, and when `wakeup` gives up.
class StateStore {
 public:
  // How a step reads a state that it may change. `optimistic`: others may change it
  // meanwhile, and then write() does nothing. `exclusive`: no other step can change it
  // until write() or leave(), or until the time of the step is over.
  enum class Access { optimistic, exclusive };

  // A state as it was read.
  struct Snapshot {
    rules::State state;
    rules::Moment now;  // by the store's clock, read after `sent_at`
    Clock::time_point
        sent_at;              // by ours, before the request: a lease is counted from here
    std::string version;      // for write(); empty if the store does not have the lock
    bool is_watched = false;  // whether a watcher wants the events of the step
    // Of the server: greater after a failover, before which it may lack some steps; 0 if
    // the store has no failovers that it tells.
    std::uint64_t epoch = 0;
    Clock::time_point read_at{};  // by ours, after the reply
  };

  // What a step has made of it.
  struct Change {
    rules::State state;
    bool gives_a_right = false;  // a grant or a renewal: durable before the answer
    // Told once the state is written: to ask; and to ask more often, because they are
    // among the first waiters now.
    std::vector<rules::Session> wake;
    std::vector<rules::Session> in_front;
    std::optional<rules::Session> sleeper;  // the party of the step, if it will sleep()
    // For events_of(): why, and the run that was lost without its holder being there.
    rules::Cause cause;
    std::optional<rules::Holder> lost;
  };

  virtual ~StateStore() = default;

  // The time limit of a step.
  virtual milliseconds timeout() const = 0;

  virtual asio::awaitable<Snapshot> read(const LockName& lock, Access access,
                                         Call call) = 0;

  // Replaces the state that was read, and ends an exclusive access. Returns false, and
  // has done nothing, if another step was faster. A Failure means that the outcome is
  // unknown: the request may even arrive later, and then does nothing if there was
  // another step meanwhile.
  virtual asio::awaitable<bool> write(const LockName& lock, const Snapshot& read,
                                      const Change& change, Call call) = 0;

  // Ends an exclusive access without a change. Need not wait until that is done, and
  // throws nothing: the answer is known.
  virtual asio::awaitable<void> leave(Wakeup& wakeup) = 0;

  // Counts a refused claim, without waiting for a reply. Throws nothing: it is worth no
  // answer.
  virtual asio::awaitable<void> count_refused(LockName lock, Wakeup& wakeup) = 0;

  // Whether what was read is known to be of another database, which this one is a copy
  // of.
  virtual bool is_copy() const { return false; }

  // Passes on all locks of the namespace, sorted by name, as they are read: together they
  // can take much memory. The finished runs may be left out.
  using Taken = std::function<void(const LockName&, const Snapshot&)>;
  virtual asio::awaitable<void> read_all(const std::string& name_space, bool with_runs,
                                         const Taken& take, Call call) = 0;

  // As LockInspector::left_out(), of the last read_all().
  virtual std::vector<Failure> left_out() const { return {}; }

  // Sleeps until a step wakes the party, which waits at this place in the queue, or until
  // `until`; may return early. If the party does not listen yet, the call only begins
  // that, so that its claim asks once more. Returns true if a step has told it that it is
  // among the first now, and nothing else has happened.
  virtual asio::awaitable<bool> sleep(rules::Session party, std::size_t place,
                                      Call call) = 0;

  // How often waiters ask without having been woken.
  virtual rules::SafetyNet safety_net() const { return {}; }

  // Whether a waiter that sleeps costs the store so much that those far back in the queue
  // should do without it; and that one does so for a while.
  virtual bool parks() const { return false; }
  virtual void park() {}
  // The same for a holder between two renewals.
  virtual void rest() {}

  // Watches that report the events that steps of others tell; null if the store cannot.
  virtual NewWatchSession watch(const Watched& /*watched*/, Wakeup& /*wakeup*/) {
    return nullptr;
  }

  // The locks of the namespace of which something is over, perhaps unnoticed.
  virtual asio::awaitable<std::vector<LockName>> overdue(std::string /*name_space*/,
                                                         Call /*call*/) {
    co_return std::vector<LockName>();
  }

  // Calls `on_news` when a step wakes the party, until the returned object is destroyed;
  // null if there are no notifications.
  virtual std::unique_ptr<LeaseNews> listen(rules::Session party,
                                            std::function<void()> on_news) = 0;
};

// What a step has read, answered and written.
template <typename Answer>
struct StepResult {
  Answer answer{};
  StateStore::Snapshot read;
  StateStore::Change change;
};

// What a step does to a state, and answers.
template <typename Answer>
using Rule = std::function<Answer(const rules::Step&, StateStore::Change&)>;

// Whether nothing but the number of refused claims differs.
bool differs_only_in_count(const rules::State& before, const rules::State& after);

// The events of a step, in order.
std::vector<Event> events_of(const LockName& lock, const StateStore::Snapshot& read,
                             const StateStore::Change& change);

// When something of the state is over the next time unless a step comes before: a lease,
// a promise, a place. Nothing if nothing will.
std::optional<Clock::time_point> due_of(const rules::State& state);

// Until when the state matters if the lock is not used any more.
Clock::time_point keep_until(const rules::State& state, rules::Moment now);

// For take(): prepares a state for a rule, and completes a change by what follows from
// it: the history, and whom to tell.
void prepare(StateStore::Change& change, const StateStore::Snapshot& read);
void complete(StateStore::Change& change, const StateStore::Snapshot& read,
              const rules::Consequences& then);

// Applies `rule` to what was read, and writes the result. Returns whether the step is
// done; else another one was faster. For `unanswered` see take().
template <typename Answer>
asio::awaitable<bool> apply(StateStore& states, const LockName& lock,
                            const Rule<Answer>& rule, StateStore::Access access,
                            Call call, bool& unanswered, StepResult<Answer>& step) {
  prepare(step.change, step.read);
  rules::Consequences then;
  const rules::ClockLiveness liveness(step.read.now);
  step.answer = rule({step.change.state, step.read.now, liveness, then}, step.change);
  complete(step.change, step.read, then);
  const bool only_counts = differs_only_in_count(step.read.state, step.change.state);
  if (!unanswered && (only_counts || step.change.state == step.read.state)) {
    if (access == StateStore::Access::exclusive) co_await states.leave(call.wakeup);
    if (only_counts) co_await states.count_refused(lock, call.wakeup);
    co_return true;
  }
  const bool was_unanswered = std::exchange(unanswered, true);
  const bool is_done = co_await states.write(lock, step.read, step.change, call);
  // If not, the version may still be the one that an earlier request read: a database may
  // refuse a write because of another row.
  unanswered = was_unanswered && !is_done;
  co_return is_done;
}

// Reads the lock and applies `rule`. If another step is faster, the rule is applied again
// to the new state, which no other step can change meanwhile: so a distant client does
// not lose for ever.
//
// A step that changes nothing writes nothing, except if an earlier step of the same claim
// may be `unanswered`: its request may still be on its way. As that compares the version,
// it does nothing once there was another step.
template <typename Answer>
asio::awaitable<StepResult<Answer>> take(StateStore& states, LockName lock,
                                         Rule<Answer> rule, Call call, bool& unanswered) {
  using Access = StateStore::Access;
  for (auto access = Access::optimistic;; access = Access::exclusive) {
    StepResult<Answer> step;
    step.read = co_await states.read(lock, access, call);
    std::exception_ptr failure;
    bool is_done = false;
    try {
      is_done = co_await apply(states, lock, rule, access, call, unanswered, step);
    } catch (const Failure&) {
      failure = std::current_exception();
    }
    // Else others would wait for a step that does not go on.
    if (failure && access == Access::exclusive) co_await states.leave(call.wakeup);
    if (failure) std::rethrow_exception(failure);
    if (is_done) co_return step;
  }
}

}  // namespace dlock::stepped
