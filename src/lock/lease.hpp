// What a lock, a claim on it and a grant of it are made of.
#pragma once

#include <sys/types.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"

namespace dlock {

// A lock as a store tells it from others. Both parts are 1 to 255 bytes of
// printable UTF-8; cli/options.cpp refuses anything else before it gets here.
struct LockName {
  std::string name_space;
  std::string name;

  auto operator<=>(const LockName&) const = default;
};

// Whether both parts are as they have to be.
bool is_valid(const LockName& name);

// The random proof that a lease is ours, new for every run. Secret.
struct Token {
  std::array<std::uint8_t, 16> bytes{};

  auto operator<=>(const Token&) const = default;
};

// A token as 32 hexadecimal digits, and back; nothing for any other text.
std::string text_of(const Token& token);
std::optional<Token> token_from(std::string_view text);

// The fencing token: greater with every grant of the same lock.
struct Fence {
  std::uint64_t number = 0;

  auto operator<=>(const Fence&) const = default;
};

// No store grants a greater one: a program that reads numbers as doubles, as JSON's and
// Redis's scripts do, could not tell it from the next. It is the time of a grant in
// microseconds, so 230 years away from an honest one.
constexpr Fence greatest_fence{(std::uint64_t{1} << 53) - 1};

enum class Mode { exclusive, shared };

// Which runs of the lock count as the one that is asked for; see lock/dedupe.hpp.
struct Dedupe {
  milliseconds window{0};     // those that started less than this ago
  bool retry_failed = false;  // but not those that failed
  bool joins = false;         // instead, those alone that end while the claim waits
};

// What a would-be holder asks for. The same claim may be put again and again.
struct Claim {
  LockName lock;
  Token token;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;  // all contenders name the same number; 1 when shared
  milliseconds ttl{30'000};
  // How much longer than its holder believes a store keeps a lease that can run out.
  milliseconds lock_delay{0};
  // Whether a lease that vanished is set up again while nobody else was granted the lock.
  bool reclaim = false;
  std::string label;
  std::vector<std::string> command;
  std::vector<Fence> outer_fences;  // grants of this lock that outer runs rely on
  Fence fence_floor;                // what it is granted has a greater one
  std::optional<Dedupe> dedupe;     // for an exclusive claim without further slots
  milliseconds min_hold{0};         // from the grant on, even if the run ends sooner
  // How it stands to others who want the lock; see Claimant::ask.
  std::optional<unsigned> max_queue;  // it does not wait if so many do already
  bool supersedes = false;            // of those who say so, the newest alone waits
  bool replaces = false;              // takes the lock from whoever has it
  // Whether the lease is that of living processes. A detached one is that of whoever
  // knows the token: any client may renew and release it, and it ends by its ttl in every
  // store.
  bool attached = true;
  pid_t on_behalf_of = 0;  // what is shown as a detached holder's pid; 0: this process
  bool for_pid = false;    // whether it is renewed for as long as that process lives
};

// The store's yes.
struct Grant {
  Fence fence;
  unsigned slot = 0;
  // When the request was sent that was granted: what counts for the lease's end.
  Clock::time_point sent_at{};
  // The lease surely holds until here; max() where the kernel ends it and no clock.
  Clock::time_point deadline = Clock::time_point::max();
  // It was taken from the holder already, by one who waits: nothing may be done with it.
  bool broken = false;
  // Of several independent servers, how many may forget the lease before others can be
  // granted the lock.
  std::optional<int> strength = std::nullopt;
};

// Who has taken a lock from its holder.
struct Taker {
  std::string user;
  std::string host;
  bool replaces = false;  // by a claim (Claim::replaces), not by Store::break_leases

  auto operator<=>(const Taker&) const = default;
};

// Who has a lease, as `status` shows it.
struct HolderInfo {
  bool foreign = false;  // not dlock's: nothing is known but how long it may last
  Fence fence;
  unsigned slot = 0;
  std::string host;
  pid_t pid = 0;  // of its dlock, or of the command where that dlock is gone
  bool dlock_gone = false;
  std::string user;
  std::vector<std::string> command;
  std::string label;
  WallTime since{};
  milliseconds held{};
  std::optional<milliseconds> expires_in;
  bool attached = true;
  bool for_pid = false;  // Claim::for_pid
  bool run_ended =
      false;            // its run has ended, and the lock is held for Claim::min_hold, or
                        // until the end of a lease that was left (RunEnd::leaves_lease)
  bool broken = false;  // it was told to end
};

struct WaiterInfo {
  std::string host;
  pid_t pid = 0;
  std::string user;
  WallTime since{};
  milliseconds waiting{};
};

// As much of a command as is kept for `status`: whole words up to 4 KiB, and "..." in
// place of the rest.
std::vector<std::string> shortened_command(const std::vector<std::string>& command);

// How a run ended. A run whose dlock vanished has no end, nor has one that goes on. A
// lease that was held by hand is told as one, too, but is none: it has no exit code, it
// counts for nobody, and it is nobody's last run.
struct RunInfo {
  Fence fence;
  WallTime started{};
  std::optional<WallTime> ended;
  std::optional<milliseconds> duration;
  std::optional<int> exit_code;
  std::optional<std::string> signal;  // "TERM"
  std::string host;
  std::string user;
  std::string outcome;  // as in the report, "vanished", "running", or "by hand"
  std::string reason;   // why its lease was lost, as in the report

  // Whether it can count for others (Claim::dedupe): it had the lock for itself.
  bool counts = false;
};

struct LockInfo {
  LockName lock;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;
  unsigned free = 1;
  std::vector<HolderInfo> holders;
  std::vector<WaiterInfo> waiters;
  std::optional<RunInfo> last_run;
  std::optional<RunInfo> last_success;  // the last run of which it is known
  bool known = false;                   // whether the store knows that it was ever used
  // Since the store knows of the lock: claims that ended with Busy (see Claimant::ask),
  // and that were superseded. An answer that got lost may count twice.
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
  WallTime now{};  // the time of the look, by the store's clock
  std::optional<int> strength = std::nullopt;  // Grant::strength of who holds it
};

// Whether the grant `fence` holds `lock`, and does so for `at_least` from the look at it
// on if nothing is done about it.
bool is_held_by(const LockInfo& lock, Fence fence, milliseconds at_least);

// What a limit admits: no more than `most` in any window of `period`.
struct Rate {
  unsigned most = 1;
  milliseconds period{1000};

  auto operator<=>(const Rate&) const = default;
};

// What one who wants to be admitted by a limit asks for. May be put again and again.
struct RateClaim {
  LockName limit;  // limits have names of their own: one can be called like a lock
  Token token;
  Rate rate;
  milliseconds patience{0};  // the longest wait for a turn that is of use

  // Who asks, for those who look at the line.
  std::string host = {};
  pid_t pid = 0;
};

}  // namespace dlock
