// The events of locks, for `dlock watch`.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// What happened, and to which party; its fields are empty for a holder that is not dlock.
struct Event : CommandInfo {
  enum class Kind {
    granted,   // the party was granted the lock
    queued,    // the party is waiting
    left,      // it stopped waiting without a grant
    released,  // it released the lock, or --min-hold is over
    expired,   // its lease expired, or its processes are gone
    lost,      // it lost its lease and ended its command
    broken,    // the lock was taken from it, and it is notified to end; perhaps by force
  };

  WallTime time{};  // by the store's clock
  Kind kind = Kind::granted;
  LockName lock;
  Fence fence;        // 0 where there is no grant
  unsigned free = 0;  // free slots at that moment

  std::optional<RunInfo> run;     // the run that ended with this event
  std::optional<Taker> taken_by;  // who broke the lease, if known
};

// "granted"
const char* event_name(Event::Kind kind);
std::optional<Event::Kind> event_kind_of(std::string_view name);

// The locks to watch: those of a namespace with these names, or all of them if there are
// no names.
struct Watched {
  std::string name_space;
  std::set<std::string> names;

  bool covers(const LockName& lock) const {
    return lock.name_space == name_space && (names.empty() || names.count(lock.name) > 0);
  }
};

// Receives events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // From now on no event is missed.
  virtual void began() = 0;
  virtual void happened(const Event& event) = 0;
  // Events are missed from now on, until began() is called again.
  virtual void interrupted(const std::string& why) = 0;
  // A single lock cannot be read; the other locks are watched.
  virtual void left_out(const std::string& /*why*/) {}
};

}  // namespace dlock
