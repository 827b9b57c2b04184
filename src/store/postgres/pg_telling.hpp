// Events of steps that did not know whether there is a watcher.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/history.hpp"
#include "store/postgres/pg_primary.hpp"

namespace dlock::postgres {

// The events of a step that are not told yet: whether there was a watcher `at` the time
// when they had been written, by the server's clock, is asked with what is sent next.
struct Untold {
  LockName lock;
  std::vector<Event> events;
  WallTime at;
};

class PgTelling {
 public:
  void remember(Untold untold) { untold_ = std::move(untold); }
  bool is_due() const { return untold_.has_value(); }

  // What is untold of the namespace, for a caller that learns whether it is watched.
  std::optional<Untold> take(const std::string& name_space);

  // Asks whether there was a watcher, and tells it; nothing if nothing is untold, or if
  // the connection is closed. Throws Failure as PgPrimary::exchange(). After a Failure,
  // the events are lost. The object may be destroyed meanwhile.
  asio::awaitable<void> tell(std::shared_ptr<PgPrimary> connection, Call call);

 private:
  std::optional<Untold> untold_;
};

// Records events behind the step, in a separate transaction.
Batch telling(const LockName& lock, const std::vector<Event>& events,
              const PgPrimary& connection);

}  // namespace dlock::postgres
