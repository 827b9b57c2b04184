// What happens to locks, for those who watch.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

struct Event {
  enum class Kind {
    granted,   // to the party
    queued,    // the party waits
    left,      // it does not any more, and was not granted the lock
    released,  // it gave the lock back, or what it was held on for is over
    expired,   // its lease ran out, or its processes are gone
    lost,      // it had to end its command, its lease being lost
    broken,    // somebody took the lock from it: it is told to end
  };

  WallTime time{};  // by the store's clock
  Kind kind = Kind::granted;
  LockName lock;
  Fence fence;        // 0 where there is no grant
  unsigned free = 0;  // how many more could hold the lock then

  // Whom it happened to; empty for a holder that is not dlock's.
  std::string host;
  pid_t pid = 0;
  std::string user;
  std::string label;
  std::vector<std::string> command;

  std::optional<RunInfo> run;     // that has ended with it
  std::optional<Taker> taken_by;  // who has broken it, if that is known
};

// "granted"
const char* event_name(Event::Kind kind);
std::optional<Event::Kind> event_kind_of(std::string_view name);

// Which locks are watched: those of a namespace with these names, or all of them.
struct Watched {
  std::string name_space;
  std::set<std::string> names;

  bool covers(const LockName& lock) const {
    return lock.name_space == name_space && (names.empty() || names.count(lock.name) > 0);
  }
};

// Who is told what happens.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // From here on nothing is missed.
  virtual void began() = 0;
  virtual void happened(const Event& event) = 0;
  // What happens from here on is missed, until began() is called again.
  virtual void interrupted(const std::string& why) = 0;
};

}  // namespace dlock
