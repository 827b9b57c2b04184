// What is known of one lock, as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/dedupe.hpp"
#include "lock/lease.hpp"
#include "rules/moment.hpp"

namespace dlock::rules {

// By what the store knows a living client from a dead one; 0 is none.
using Session = std::uint64_t;

// Whose lease or place it is, and how to tell whether it still lives.
struct Party {
  Token token;
  Session session = 0;
  std::int32_t pid = 0;             // of its dlock
  std::uint64_t pid_namespace = 0;  // in which that pid means something
  std::uint32_t uid = 0;
  std::string host;
};

// Who has taken the lock from a holder.
struct TakenBy {
  std::uint32_t uid = 0;
  std::string host;
  bool replaces = false;  // Taker::replaces
};

struct Holder {
  Party party;
  std::int32_t command = 0;        // pid, once it is known
  std::int64_t command_after = 0;  // boot time in ns: it started between these two
  std::int64_t command_before = 0;
  Mode mode = Mode::exclusive;
  std::uint32_t slot = 0;
  Fence fence;
  WallTime since{};
  Clock::time_point granted_at;
  std::optional<Clock::time_point> ends_at;  // detached leases, and ended ones
  std::string label;
  std::vector<std::string> argv;
  bool counts = false;  // its run does, for claims with Claim::dedupe
  milliseconds min_hold{};
  bool for_pid = false;  // Claim::for_pid
  bool ended = false;    // its run has, and the lock is held until ends_at
  bool broken = false;   // it was told to end
  std::optional<TakenBy> taken_by = std::nullopt;  // if it is broken, and that is known
};

struct Waiter {
  Party party;
  Mode mode = Mode::exclusive;
  WallTime since{};
  Clock::time_point queued_at;
  // Until when the lock is kept for this waiter to confirm.
  std::optional<Clock::time_point> promised_until;
  // It let a promise lapse (it is stopped, say): others go first until it asks again.
  bool passed_over = false;
  std::optional<Dedupe> dedupe;
  bool supersedes = false;
  bool replaces = false;
};

// A waiter that has left the queue because of a run that counts as its own, or of a newer
// claim, and may not know it yet.
struct AnsweredWaiter {
  Waiter waiter;
  RunInfo by;
  std::optional<Superseded> newer = std::nullopt;  // in the place of a run
};

struct State {
  Fence last_fence;
  std::uint32_t slots = 1;
  WallTime used{};  // when it was last granted or released
  std::vector<Holder> holders;
  std::vector<Waiter> waiters;  // in order of arrival
  std::optional<RunInfo> last_run;
  PastRuns past;
  std::vector<AnsweredWaiter> answered;
  std::vector<RunInfo> runs;  // that are over, the last that ended first
  // How many claims, see LockInfo.
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
};

// The holder with this token; end() if there is none. Not one whose run has ended, which
// has no token, though somebody may come with that.
std::vector<Holder>::iterator holder_of(State& state, const Token& token);

std::vector<Waiter>::iterator waiter_of(State& state, const Token& token);
std::vector<AnsweredWaiter>::iterator answered_of(State& state, const Token& token);

// Puts a run before those that are over; see add_to_history().
void note_past_run(State& state, const RunInfo& run);

}  // namespace dlock::rules
