// The answers of a lock service.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/lease.hpp"
#include "util/fd.hpp"

namespace dlock {

// Why a lease is certainly, or possibly, no longer ours. `failed_over`: a server that
// took over did not know the lease, and it was too late to restore it there.
enum class Loss { taken_over, gone, broken, unconfirmed, failed_over };

// As in the report: "taken over".
inline std::string loss_name(Loss loss) {
  switch (loss) {
    case Loss::taken_over: return "taken over";
    case Loss::failed_over: return "failed over";
    case Loss::gone: return "gone";
    case Loss::broken: return "broken";
    case Loss::unconfirmed: break;
  }
  return "unconfirmed";
}

// The result of a renewal. A broken lease is renewed, but its holder has to end. If the
// store cannot be reached, that is a Failure.
enum class Renewal { confirmed, broken, reclaimed, taken_over, gone, failed_over };

// What a claim does if the lock is busy: `join` takes a place in the queue or keeps it;
// `stay_out` only asks. `refuse` only asks, for the last time: if the answer is Busy, it
// is final and is counted (LockInfo::refused).
enum class Queue { stay_out, join, refuse };

// Another claim holds the lock or was promised it: an answer, not an error.
struct Busy {
  std::vector<HolderInfo> holders;
  std::size_t place =
      0;  // position in the queue, from 1; 0 for a claim that does not queue
  std::size_t queued = 0;  // how many are waiting, including this claim
};

// An outer run holds the requested lock, so waiting would never end.
struct HeldByOuterRun {
  Fence fence;
};

// The lock is in use with another number of slots.
struct SlotsDiffer {
  unsigned in_use = 0;
};

// Another run of the lock counts as the requested one.
struct Deduplicated {
  RunInfo by;
};

// A newer claim has taken the place of this one (Claim::supersedes).
struct Superseded {
  std::string host;  // of the newer one; empty if it is no longer known
  pid_t pid = 0;

  bool operator==(const Superseded&) const = default;
};

using Answer =
    std::variant<Grant, Busy, HeldByOuterRun, SlotsDiffer, Deduplicated, Superseded>;

// The result of a release. A result that reports a loss (loss_found_by) is returned to a
// caller that did not know of the loss; nothing else has been done then.
enum class Release { released, not_ours, left, taken_over, gone, broken, failed_over };

// Except for `unconfirmed`, which no store reports.
inline Release release_reporting(Loss loss) {
  switch (loss) {
    case Loss::taken_over: return Release::taken_over;
    case Loss::failed_over: return Release::failed_over;
    case Loss::broken: return Release::broken;
    case Loss::gone:
    case Loss::unconfirmed: break;
  }
  return Release::gone;
}

// Why the lease was lost, if the release found that it was.
inline std::optional<Loss> loss_found_by(Release answer) {
  switch (answer) {
    case Release::taken_over: return Loss::taken_over;
    case Release::failed_over: return Loss::failed_over;
    case Release::gone: return Loss::gone;
    case Release::broken: return Loss::broken;
    case Release::released:
    case Release::not_ours:
    case Release::left: break;
  }
  return std::nullopt;
}

// How a run ended, to be recorded.
struct RunEnd {
  std::optional<int> exit_code;
  std::optional<std::string> signal;
  std::string outcome;
  milliseconds duration{};
  std::optional<Loss> lost;  // the lease did not hold, or may not have held, to the end
  std::optional<Taker> taken_by = std::nullopt;  // if it is Loss::broken, and if known
  bool leaves_lease = false;                     // lets the lease expire, if it can
  bool is_shared = false;  // counts for waiters that join it (Dedupe::joins)
};

// Takes the lock from the holders with one of these fences; 0 is a holder that is not
// dlock's. See Store::break_leases.
struct Break {
  std::vector<Fence> fences;
  bool by_force = false;  // frees the lock without waiting for holders that run
};

// A holder that the lock was taken from.
struct Broken {
  HolderInfo holder;  // as it was
  // The remaining processes of a run whose dlock process has exited, as pidfds, for the
  // caller to kill.
  std::vector<Fd> processes;
};

// The answers of a rate limit. Each has the number of admissions left now, and the time
// until a newcomer could be admitted.
struct Admitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
};

// Not yet admitted. With a turn the claim has a place in the queue and has to ask again
// after `next_in`; without one the wait would be longer than the claim accepts.
struct NotAdmitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
  bool has_turn = false;
};

// The limit is in use with another rate.
struct RateDiffers {
  Rate in_use;
};

using RateAnswer = std::variant<Admitted, NotAdmitted, RateDiffers>;

// A turn lapses if it is not taken within this time.
constexpr milliseconds turn_holds{1000};

// The state of a limit, for display.
struct LimitInfo {
  // A waiter, and the time until its turn.
  struct Waiter {
    std::string host;  // empty if it is not known
    pid_t pid = 0;
    milliseconds turn_in{0};
  };

  std::optional<Rate> rate;  // nothing if it is not in use; then any rate is accepted
  unsigned remaining = 0;
  milliseconds next_in{0};      // until a newcomer could be admitted
  std::vector<Waiter> waiters;  // in order of arrival
};

}  // namespace dlock
