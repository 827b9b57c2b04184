// What has happened to a lock: the runs that stores keep, and the events for `dlock
// watch`.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"

namespace dlock {

// The number of finished runs kept per lock, and for how long; shared/runs.lua has the
// same numbers.
constexpr std::size_t runs_kept = 20;
constexpr std::chrono::hours run_retention{32 *
                                           24};  // longer than a month (--dedupe month)

// How many of them may be leases of acquire, so that these leave room for
// runs.
constexpr std::size_t leases_by_hand_kept = 10;

// The outcome of a lease of acquire.
constexpr const char* by_hand = "by hand";

// The outcome of a run that lost its lock.
constexpr const char* lost_run = "lost";

bool is_by_hand(const RunInfo& run);

// Records how it ended, except when.
void set_end(RunInfo& run, const RunEnd& end);

// Whether the run has not ended, as far as is known.
bool is_running(const RunInfo& run);

// Whether the command exited with 0 and held the lock to its end.
bool is_success(const RunInfo& run);

// The most recent success among `runs` and `known`, by when it ended.
std::optional<RunInfo> last_success_of(const std::vector<RunInfo>& runs,
                                       const std::optional<RunInfo>& known);

// The reason of a run that lost its lock to `taker`: "broken by USER@HOST", "replaced by
// USER@HOST" or, if the lock was freed without waiting for the run (Break::by_force),
// "broken by force by USER@HOST"; and the inverse, which returns nothing for other
// reasons.
std::string taken_reason(const Taker& taker);
std::optional<Taker> taker_of(const RunInfo& run);

// Who freed the lock without waiting for the run; nothing if that did not happen.
std::optional<Taker> forced_by(const RunInfo& run);

// Makes the end of a lost run one whose lock was freed by force, if the record of it that
// is replaced says so.
void keep_forced_reason(const RunInfo& former, RunInfo& run);

// Adds a finished run to the front of `runs`, and drops those beyond the limits.
void add_to_history(std::vector<RunInfo>& runs, const RunInfo& run);

// The run of a holder, with its duration so far; for a detached holder its lease of
// acquire. Nothing for another program, or for one whose run has ended.
std::optional<RunInfo> run_of(const HolderInfo& holder);

// The runs to list at `now`, without duplicates, the last started first.
std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now);

// What happened, and to which party; its fields are empty for a holder that is not dlock.
struct Event : CommandInfo {
  enum class Kind {
    granted,   // the party was granted the lock
    queued,    // the party is waiting
    left,      // it stopped waiting without a grant
    released,  // it released the lock, or --min-hold is over
    expired,   // its lease expired, or its processes have exited
    lost,      // it lost its lease and stopped its command
    broken,    // the lock was taken from it, and it is notified to end; perhaps by force
  };

  WallTime time{};  // by the store's clock
  Kind kind = Kind::granted;
  LockName lock;
  Fence fence;        // 0 where there is no grant
  unsigned free = 0;  // free slots at that moment
  int priority = 0;   // of a waiter

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
