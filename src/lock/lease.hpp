// Locks, claims, grants, and when a lease ends.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

// Identifies a lock in a store. Both parts are 1 to 255 bytes of printable UTF-8;
// cli/args/values.cpp rejects anything else.
struct LockName {
  std::string name_space;
  std::string name;

  auto operator<=>(const LockName&) const = default;
};

// Whether both parts are valid.
bool is_valid(const LockName& name);

// The random secret that proves that a lease is ours; new for every run.
struct Token {
  std::array<std::uint8_t, 16> bytes{};

  auto operator<=>(const Token&) const = default;
};

// A token as 32 hexadecimal digits, and the inverse, which returns nothing for any other
// text.
std::string text_of(const Token& token);
std::optional<Token> token_from(std::string_view text);

// The fencing token: a number that grows with every grant of the same lock.
struct Fence {
  std::uint64_t number = 0;

  auto operator<=>(const Fence&) const = default;
};

// No store grants a greater fence. A program that reads numbers as doubles, as JSON
// parsers and Redis scripts do, could not tell it from the next one. A fence is the time
// of the grant in microseconds, so this limit is 230 years away unless a clock is wrong.
constexpr Fence greatest_fence{(std::uint64_t{1} << 53) - 1};

// The greatest fence that is believed if a server, a file or another counter reports it:
// no clock shows that time before 2112, and as many fences again are left after it.
constexpr Fence greatest_believed_fence{std::uint64_t{1} << 52};

// The greatest fence that is believed if one server of several, or one record of many,
// reports it. A fence is the time of its grant, or the next number if the clock is behind
// the last one; so it is ahead of the clock only if a clock was. `most_report` is the
// fence that most of the reporters have reached: if a clock was wrong, they show it. What
// is more than 32 days, for as long as past runs are kept, ahead of both is a mistake or
// a lie, and would stay for good if it was passed on.
Fence greatest_plausible_fence(WallTime now, Fence most_report);

enum class Mode { exclusive, shared };

// Which runs of the lock count as the requested one; see PastRuns.
struct Dedupe {
  milliseconds window{0};     // those that started less than this ago
  bool retry_failed = false;  // except those that failed
  bool joins = false;         // instead, only those that end while the claim waits
  // When the window began, if that is a moment: it grows while the claim waits. Stores
  // know only how long it is (as_of_now()), because their clocks decide.
  std::optional<Clock::time_point> began = std::nullopt;

  // The same, with the window as it is now.
  Dedupe as_of_now() const;

  bool operator==(const Dedupe&) const = default;
};

// What the user says about a claim and its run, for those who look at the lock. A new
// field is listed in record/record_fields.hpp, and shown in cli/show/lock_view.cpp.
struct Description {
  std::string label;

  bool operator==(const Description&) const = default;
};

// A request for a lock. The same claim may be sent repeatedly.
struct Claim : Description {
  LockName lock;
  Token token;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;  // the same for all contenders; 1 when shared
  milliseconds ttl{30'000};
  // How much longer than the holder assumes the store keeps a lease that can expire.
  milliseconds lock_delay{0};
  // Whether a lease that vanished is restored while no other claim was granted the lock.
  bool reclaim = false;
  std::vector<std::string> command;
  std::vector<Fence> outer_fences;  // grants of this lock that outer runs rely on
  Fence fence_floor;                // the grant has a greater fence than this
  std::optional<Dedupe> dedupe;     // for an exclusive claim without further slots
  std::string period;               // RunInfo::period
  milliseconds min_hold{0};         // counted from the grant, even if the run ends sooner
  // How it competes with other claims; see Claimant::ask.
  std::optional<unsigned> max_queue;  // do not wait if this many are waiting
  bool supersedes = false;            // only the newest of these claims waits
  bool replaces = false;              // takes the lock from its holders
  int priority = 0;  // waits before claims with a greater number, and after equal ones
  bool spreads = false;  // not while its host holds a slot, or was promised one
  // Whether the lease belongs to living processes. A detached one belongs to whoever
  // knows the token: any client may renew and release it, and it expires after its ttl in
  // every store.
  bool attached = true;
  // Whether a renewal sets a detached lease to the ttl that it was acquired with. `ttl`
  // is for a lease whose ttl is not known, because an earlier version granted it.
  bool keeps_ttl = false;
  pid_t on_behalf_of = 0;  // the pid shown for a detached holder; 0: this process
  bool for_pid = false;    // whether it is renewed while that process lives
};

// A granted claim.
struct Grant {
  Fence fence;
  unsigned slot = 0;
  // When the granted request was sent: the lease is counted from here.
  Clock::time_point sent_at{};
  // The lease certainly holds until then; max() where the kernel ends it and not a clock.
  Clock::time_point deadline = Clock::time_point::max();
  // The lock was already taken from this holder by a waiter: the grant must not be used.
  bool broken = false;
  // With several independent servers: how many of them may forget the lease before the
  // lock could be granted to others.
  std::optional<int> strength = std::nullopt;
};

// Who took a lock from its holder.
struct Taker {
  std::string user;
  std::string host;
  bool replaces = false;  // by a claim (Claim::replaces), not by Store::break_leases
  bool forced = false;    // Break::by_force

  auto operator<=>(const Taker&) const = default;
};

// On whose behalf a lock is held or waited for, and where.
struct Owner {
  std::string host;
  std::string user;  // the name, or the number where looking up names would take time

  bool operator==(const Owner&) const = default;
};

// Who holds a lock or waits for it, as it is shown.
struct PartyInfo : Owner, Description {
  pid_t pid = 0;  // of dlock, or of the command if its dlock has exited
};

// The same with what it runs.
struct CommandInfo : PartyInfo {
  std::string period;  // RunInfo::period
  std::vector<std::string> command;
};

// A holder as `status` shows it.
struct HolderInfo : CommandInfo {
  bool foreign = false;  // not dlock's: only its expiry is known
  Fence fence;
  unsigned slot = 0;
  bool dlock_gone = false;
  WallTime since{};
  milliseconds held{};
  std::optional<milliseconds> expires_in;  // nothing: never, or see is_expiry_unknown
  bool is_expiry_unknown = false;          // it expires, but the store did not say when
  bool attached = true;
  bool for_pid = false;    // Claim::for_pid
  bool run_ended = false;  // its run has ended; the lock is held for Claim::min_hold, or
                           // until its lease expires (RunEnd::leaves_lease)
  bool broken = false;     // it was notified to end
};

struct WaiterInfo : PartyInfo {
  int priority = 0;
  WallTime since{};
  milliseconds waiting{};
};

// The part of a command that is kept for `status`: whole words up to 4 KiB, then "...".
std::vector<std::string> shortened_command(const std::vector<std::string>& command);

// This process as the one that makes a claim, with the part of its command that is kept;
// and as the one that takes a lock from its holder.
CommandInfo own_party(const Claim& claim);
Taker own_taker(bool replaces);

// A run of a lock. A run in progress has no end, nor has one whose dlock vanished. A
// lease of acquire is also listed as one, but it is not a run: it has no exit code, it
// does not count for deduplication, and it is never the last run.
struct RunInfo : Owner, Description {
  Fence fence;
  WallTime started{};
  std::optional<WallTime> ended;
  std::optional<milliseconds> duration;
  std::optional<int> exit_code;
  std::optional<std::string> signal;  // "TERM"
  std::string outcome;  // as in the report, "vanished", "running", or "by hand"
  std::string reason;   // why its lease was lost, as in the report
  // The calendar period for which the run was requested (--dedupe day@UTC), a blank, and
  // when that began; empty without one.
  std::string period;

  // Whether it can count for deduplication (Claim::dedupe): it held the lock alone.
  bool counts = false;

  bool operator==(const RunInfo&) const = default;
};

// The past runs of a lock that can still count for deduplication.
struct PastRuns {
  std::optional<RunInfo> last;
  std::optional<RunInfo> last_success;

  // Records a run, unless a later one is known. A run whose lease was lost does not
  // count: others may have run at the same time. Neither does one whose end was not
  // recorded: it may have been lost, or killed half-way.
  void note(const RunInfo& run);

  // The run that counts for such a claim; null if none does. None counts for a claim that
  // joins, because it needs a run that has not ended yet.
  const RunInfo* counting_for(const Dedupe& dedupe, WallTime now) const;

  bool operator==(const PastRuns&) const = default;
};

struct LockInfo {
  LockName lock;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;
  unsigned free = 1;
  std::vector<HolderInfo> holders;
  std::vector<WaiterInfo> waiters;
  std::optional<RunInfo> last_run;
  std::optional<RunInfo> last_success;  // the last run known to have succeeded
  PastRuns past;                        // those that can count for Claim::dedupe
  bool known = false;                   // whether the store knows the lock
  // Counted since the store first knew the lock: claims that ended with Busy (see
  // Claimant::ask), and claims that were superseded. A claim whose answer was lost may be
  // counted twice.
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
  WallTime now{};                              // when it was read, by the store's clock
  std::optional<int> strength = std::nullopt;  // Grant::strength of the holder

  // Whether it is in use, or was: only such locks are listed.
  bool is_listed() const { return !holders.empty() || !waiters.empty() || last_run; }
};

// Whether the grant `fence` holds `lock`, and will for at least `at_least` from when
// `lock` was read if it is not renewed.
bool is_held_by(const LockInfo& lock, Fence fence, milliseconds at_least);

// The rate of a limit: at most `most` admissions in any window of `period`.
struct Rate {
  unsigned most = 1;
  milliseconds period{1000};

  auto operator<=>(const Rate&) const = default;
};

// A request for admission by a rate limit. It may be sent repeatedly.
struct RateClaim {
  LockName limit;  // a limit and a lock may have the same name
  Token token;
  Rate rate;
  milliseconds patience{0};  // the longest acceptable wait for a turn

  // The client, shown to those who inspect the queue.
  std::string host = {};
  pid_t pid = 0;
};

// A process that relies on a lease, for stores that can ask the kernel about it. It
// started between the two moments, which tells it from a later process with the same pid.
struct CommandProcess {
  pid_t pid = 0;
  Clock::time_point not_before;
  Clock::time_point not_after;
};

// What the process writes right before it executes the command: its own pid between the
// first two texts, and the milliseconds since boot between the last two, so that the
// store knows the process before its first instruction.
struct StartNote {
  Fd file;
  std::string before_pid;
  std::string before_time;
  std::string after;
};

// What the end of a run means for deduplication.
enum class Verdict { no_run, failed, succeeded };

// The verdict on an exit code; no code (ended by a signal, or unknown) means failed. A
// command that was not found or could not be started is no run, even if a shell reports
// that.
Verdict verdict_on(std::optional<int> exit_code);

// Whether a run started less than `window` ago. A start time in the future, because the
// clock was set back, counts as just as far in the past: after a small step the run is
// not repeated, and after a large one it is not suppressed for long.
bool is_recent(WallTime started, milliseconds window, WallTime now);

// The longest time from TERM to KILL when the lock is certainly lost.
constexpr milliseconds longest_certain_loss_grace{1000};

// When a lease that can expire is renewed, and when the processes that rely on it must be
// killed so that they are dead before the store could grant the lock to another claim.
class LeaseTiming {
 public:
  // `kill_after`: the time from TERM to KILL that the user set. `budget`: the time limit
  // of one operation on the store.
  LeaseTiming(milliseconds ttl, milliseconds kill_after, milliseconds budget)
      : ttl_(ttl),
        grace_(std::min({kill_after, longest_grace, ttl / 5})),
        budget_(budget) {}

  milliseconds ttl() const { return ttl_; }

  // An allowance for clocks that run at different speeds.
  milliseconds drift() const { return (ttl_ + milliseconds(99)) / 100 + milliseconds(2); }
  // The time from KILL until the last process has exited. On a busy machine each process
  // has to wait for a CPU to exit on, however long the lease is.
  milliseconds margin() const { return std::clamp(ttl_ / 20, least_margin, most_margin); }
  // From TERM to KILL when the lease may expire.
  milliseconds grace() const { return grace_; }
  // From TERM to KILL when the lease is certainly lost.
  milliseconds certain_loss_grace() const {
    return std::min(grace_, longest_certain_loss_grace);
  }
  milliseconds budget() const { return budget_; }

  // From one renewal to the next. Failed renewals are repeated at growing intervals, from
  // first_retry (loop/wakeup.hpp) up to longest_retry().
  milliseconds renew_every() const { return ttl_ / 3; }
  milliseconds longest_retry() const { return renew_every() / 4; }

  // Whether a command could still be stopped in time after a failed renewal.
  bool is_sound() const { return needed() <= ttl_; }
  milliseconds needed() const {
    return renew_every() + budget_ + grace_ + margin() + drift();
  }

  // The last moment at which a lease certainly holds that was granted or renewed by a
  // request sent at `sent_at`.
  Clock::time_point deadline(Clock::time_point sent_at) const {
    return later(sent_at, ttl_ - drift());
  }

  // How much of a lease has to be left to start a command.
  milliseconds needed_to_start() const { return grace_ + margin() + budget_; }

 private:
  static constexpr milliseconds longest_grace{5000};
  // With two CPUs and eight busy processes, up to 71 ms were measured.
  static constexpr milliseconds least_margin{125};
  static constexpr milliseconds most_margin{2000};

  milliseconds ttl_;
  milliseconds grace_;
  milliseconds budget_;
};

}  // namespace dlock
