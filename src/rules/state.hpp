// The state of one lock, as a value, and the runs that follow from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock::rules {

// One moment on both clocks.
struct Moment {
  Clock::time_point boot;
  WallTime wall{};

  static Moment now() { return {Clock::now(), wall_now()}; }
};

// Whether a time read from a file is plausible: after the epoch, with a year of four
// digits.
constexpr bool is_possible(WallTime time) {
  constexpr WallTime year_10000 = std::chrono::seconds(253'402'300'800);
  return time >= WallTime(0) && time < year_10000;
}

// How the store tells a living client from a dead one; 0 is no session.
using Session = std::uint64_t;

// That of an attached party where the clock ends leases and a session is only an address.
// Tokens are random, so that two parties hardly ever share one.
Session session_of(const Token& token);

// The owner of a lease or a place in the queue, and how to tell whether it is alive.
struct Party : Owner {
  Token token;
  Session session = 0;
  std::int32_t pid = 0;             // of its dlock
  std::uint64_t pid_namespace = 0;  // in which that pid is valid
  // Not dlock's: it has the whole lock, or waits for it, and nothing else is known of it.
  bool foreign = false;

  bool operator==(const Party&) const = default;
};

// Which grant it is. Its fence does not show that: two servers, of which one lacks what
// the other has granted, may grant the same; nor does the claim, which may be granted the
// lock again.
struct GrantId {
  Token claim;  // none if it is not known
  Fence fence;  // 0 if there was none

  bool operator==(const GrantId&) const = default;
};

// The ttl of a detached lease of which no other is recorded.
constexpr milliseconds usual_ttl{30'000};

struct Holder : Description {
  Party party;
  std::int32_t command = 0;        // its pid, once known
  std::int64_t command_after = 0;  // boot time in ns: it started between these two
  std::int64_t command_before = 0;
  Mode mode = Mode::exclusive;
  std::uint32_t slot = 0;
  Fence fence;
  WallTime since{};
  Clock::time_point granted_at;
  std::optional<Clock::time_point> ends_at;  // detached leases, and ended ones
  bool ends_unknown = false;  // its lease ends, but the store did not say when
  // Where the clock ends leases: when an attached one ends unless it is renewed, and how
  // long any of them lasts from its grant or renewal.
  std::optional<Clock::time_point> lives_until;
  milliseconds lease{};
  milliseconds ttl = usual_ttl;  // that a detached lease was acquired with
  std::string period;            // RunInfo::period; an embedded store has it in its log
  std::vector<std::string> argv;
  bool counts = false;  // whether its run counts for Claim::dedupe
  milliseconds min_hold{};
  bool for_pid = false;  // Claim::for_pid
  bool ended = false;    // its run has ended, and the lock is held until ends_at
  bool broken = false;   // it was notified to end
  std::optional<Taker> taken_by = std::nullopt;  // if it is broken, and if known
  // The end of its run, if that is known from elsewhere; not a part of the state.
  std::optional<RunInfo> known_end = std::nullopt;
  // The last grant before this one, for its client; not a part of the state.
  GrantId after = {};

  bool operator==(const Holder&) const = default;
};

struct Waiter : Description {
  Party party;
  Mode mode = Mode::exclusive;
  WallTime since{};
  Clock::time_point queued_at;
  // Where the clock ends places: when this one does unless the waiter asks again.
  std::optional<Clock::time_point> lives_until;
  // Until when the lock is reserved for this waiter to take.
  std::optional<Clock::time_point> promised_until;
  // It let a promise lapse, for example because it is stopped: others go first until it
  // asks again.
  bool passed_over = false;
  // It has left its connection, and asks again by then: others go first until it does.
  std::optional<Clock::time_point> parked_until = std::nullopt;
  std::optional<Dedupe> dedupe;
  bool supersedes = false;
  bool replaces = false;
  std::int32_t priority = 0;      // Claim::priority
  bool spreads = false;           // Claim::spreads
  std::int32_t on_behalf_of = 0;  // Claim::on_behalf_of
  // It asks for another number of slots than those before it. Most stores refuse that.
  bool differs_in_slots = false;
  std::vector<std::string> argv = {};  // what it waits to run, where a store keeps that

  bool operator==(const Waiter&) const = default;
};

// A waiter that has left the queue because another run counts as its own or a newer claim
// superseded it, and that may not have read this answer yet.
struct AnsweredWaiter {
  Waiter waiter;
  RunInfo by;
  std::optional<Superseded> newer = std::nullopt;  // if it was superseded

  bool operator==(const AnsweredWaiter&) const = default;
};

// That a lease was restored since the last grant (Claim::reclaim).
struct Restored {
  Fence granted;                  // the fence of that grant; 0 if none was recorded
  std::vector<GrantId> vanished;  // whose leases had ended since; they count as well

  bool operator==(const Restored&) const = default;
};

struct State {
  Fence last_fence;
  std::uint32_t slots = 1;
  WallTime used{};  // when it was last granted or released
  std::vector<Holder> holders;
  std::vector<Waiter> waiters;  // by priority, then in order of arrival
  std::optional<RunInfo> last_run;
  PastRuns past;
  std::vector<AnsweredWaiter> answered;
  std::vector<RunInfo> runs;  // finished runs, the last ended first
  // The number of such claims; see LockInfo.
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
  std::optional<Restored> restored = std::nullopt;
  Token last_claim = {};  // that was granted the lock last; none if it is not known

  bool operator==(const State&) const = default;
};

// The last grant.
GrantId last_grant(const State& state);

// The holder with this token; end() if there is none. A holder whose run has ended is not
// returned: its token is no longer valid, even if a client still presents it.
std::vector<Holder>::iterator holder_of(State& state, const Token& token);

std::vector<Waiter>::iterator waiter_of(State& state, const Token& token);
// When the clock ends the lease, if it does.
std::optional<Clock::time_point> end_of(const Holder& holder);

std::vector<AnsweredWaiter>::iterator answered_of(State& state, const Token& token);

// Adds a finished run; see add_to_history().
void record_past_run(State& state, const RunInfo& run);

// Reports whether a holder's or waiter's processes are alive, from the kernel where it
// can be asked.
class Liveness {
 public:
  virtual ~Liveness() = default;
  // Whether any process of it is alive: its session is locked, or its command runs.
  virtual bool is_alive(const Holder& holder) const = 0;
  virtual bool is_alive(const Waiter& waiter) const = 0;
  // Whether it certainly cannot respond now (SIGSTOP, Ctrl-Z), though it is alive.
  virtual bool is_stopped(const Waiter& waiter) const = 0;
};

// Where the clock of the store ends leases and places.
class ClockLiveness final : public Liveness {
 public:
  explicit ClockLiveness(Moment now) : now_(now.boot) {}
  bool is_alive(const Holder& holder) const override {
    return holder.lives_until && *holder.lives_until > now_;
  }
  bool is_alive(const Waiter& waiter) const override {
    return waiter.lives_until && *waiter.lives_until > now_;
  }
  bool is_stopped(const Waiter&) const override { return false; }

 private:
  Clock::time_point now_;
};

// Whether the lease of `holder` has ended, by its expiry or with its processes.
bool is_over(const Holder& holder, Moment now, const Liveness& liveness);

// The run of `holder` that ended with `end`.
RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now);

// The run of a holder from which `taker` took the lock by force.
RunInfo forced_run(const Holder& holder, const Taker& taker, Moment now);

// The run of a holder that ended without a report.
RunInfo vanished_run(const Holder& holder);

// The run of a former holder: its known end, or vanished.
RunInfo run_of_gone(const Holder& holder);

// Whether its end without a report is recorded. Where leases expire by a clock, it is not
// known whether the command has started.
bool may_have_run(const Holder& holder);

// Whether it is a lease of acquire, and not a lock that is only held for min_hold.
bool is_by_hand(const Holder& holder);

// The history entry of a lease of acquire that is over, now or by its expiry.
RunInfo lease_by_hand(const Holder& holder, Moment now);

// Records it as the last run.
void record_run(State& state, const RunInfo& run);

// The run that counts as the claim's own, if there is one. With Queue::join the claim can
// wait for a run to end.
std::optional<RunInfo> counting_run(const State& state, const Dedupe& dedupe, Queue queue,
                                    Moment now);

// Whether the run that was in progress when a waiter left the queue because of it does
// not count after all: it was lost, or is about to be.
bool has_come_to_nothing(const State& state, const RunInfo& run);

// Runs and leases of acquire that are in progress, or are over and not yet recorded.
std::vector<RunInfo> runs_of_holders(const State& state, Moment now,
                                     const Liveness& liveness);

}  // namespace dlock::rules
