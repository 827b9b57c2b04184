// Where a store that is built on the rules keeps the states of its locks. Such a store is
// this interface, and a codec for rules::State if it keeps bytes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"
#include "rules/state.hpp"

namespace dlock::stepped {

// Calls that wait end by `until` with a Failure, and when `wakeup` gives up.
class StateStore {
 public:
  // How a step reads a state that it may change. `optimistic`: others may change it
  // meanwhile, and then write() does nothing. `exclusive`: nobody else can change it
  // until write() or leave(), or until the time of the step is over.
  enum class Access { optimistic, exclusive };

  // A state as it was read.
  struct Snapshot {
    rules::State state;
    rules::Moment now;  // by the store's clock, read after `sent_at`
    Clock::time_point
        sent_at;          // by ours, before the request: a lease is counted from here
    std::string version;  // for write(); empty if the store does not have the lock
  };

  // What a step has made of it.
  struct Change {
    rules::State state;
    bool gives_a_right = false;        // a grant or a renewal: durable before the answer
    std::vector<rules::Session> wake;  // woken once the state is written
  };

  virtual ~StateStore() = default;

  // The time limit of a step.
  virtual milliseconds timeout() const = 0;

  virtual asio::awaitable<Snapshot> read(const LockName& lock, Access access,
                                         Clock::time_point until, Wakeup& wakeup) = 0;

  // Replaces the state that was read, and ends an exclusive access. Returns false, and
  // has done nothing, if another step was faster. A Failure means that the outcome is
  // unknown: the request may even arrive later, and then does nothing if there was
  // another step meanwhile.
  virtual asio::awaitable<bool> write(const LockName& lock, const Snapshot& read,
                                      const Change& change, Clock::time_point until,
                                      Wakeup& wakeup) = 0;

  // Ends an exclusive access without a change.
  virtual asio::awaitable<void> leave(Clock::time_point until, Wakeup& wakeup) = 0;

  // All locks of the namespace, sorted by name.
  virtual asio::awaitable<std::vector<std::pair<LockName, Snapshot>>> read_all(
      const std::string& name_space, Clock::time_point until, Wakeup& wakeup) = 0;

  // Sleeps until a step wakes the party, or until `until`; may return early. The first
  // call for a party only begins to listen, so that its claim asks once more after that.
  virtual asio::awaitable<void> sleep(rules::Session party, Clock::time_point until,
                                      Wakeup& wakeup) = 0;

  // Calls `on_news` when a step wakes the party, until the returned object is destroyed;
  // null if there are no notifications.
  virtual std::unique_ptr<LeaseNews> listen(rules::Session party,
                                            std::function<void()> on_news) = 0;
};

}  // namespace dlock::stepped
