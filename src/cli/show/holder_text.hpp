// Describes holders, runs and the loss of a lock, in messages and tables.
#pragma once

#include <optional>
#include <string>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock {

// A client that is not dlock and uses the same key.
constexpr const char* foreign_holder = "another program";

// "root@web1"
std::string owner_text(const std::string& user, const std::string& host);

// Whether it is a lease of acquire: it belongs to no process and expires unless it
// is renewed.
bool is_detached(const HolderInfo& holder);

// What the user says of it, shortened for messages or tables; empty for nothing.
std::string shown(const Description& description, std::size_t most = 60);

// "12s": the time until the lease expires.
std::string time_left(const HolderInfo& holder);

// "renewed for pid 20860": for a detached lease that is renewed while a process lives.
std::string renewed_for(const HolderInfo& holder);

// ", held for another 12s": for a lock that is still held after its run. Empty if that is
// not known.
std::string hold_note(const HolderInfo& holder);

// "root@web1 (pid 123, ./backup.sh) for 3m12s"
std::string described(const HolderInfo& holder);

// "it ran on web1 at 2026-11-21T04:00:00.250Z: exit 0, took 7m13s"
std::string described(const RunInfo& run);

// "exit 0", "killed by SIGTERM", "timeout, exit 124", "vanished"
std::string outcome_of(const RunInfo& run);

// Whether a run that is over failed.
bool is_failure(const RunInfo& run);

// Why a request was not granted: "held by root@web1 (pid 123, ./backup.sh) for 3m12s".
std::string refusal_text(const Answer& answer, unsigned slots);

// That the request for a lock could not be withdrawn, and `why`: "cannot withdraw the
// request for the lock: 10.0.0.1:6379 did not reply within 5s; it may still get the lock,
// for 30s at most".
std::string withdrawal_failed_text(const Claim& claim, const std::string& why);

// How long a wait that is over was to last, in front of its refusal_text(): "not acquired
// within 5m: ". Empty without one.
std::string after_wait_text(std::optional<milliseconds> wait);

// What to add for a person at a terminal who did not wait for a lock that is held: how to
// queue. Empty elsewhere, and for other answers.
std::string queue_hint(const Answer& answer);

// Why a grant does not hold a lock for that long from now on (is_held_by): "no longer
// held: the lock is free".
std::string not_held_text(const LockInfo& lock, Fence fence, milliseconds at_least);

// "waiting: held by root@web1 (pid 123, ./backup.sh) for 3m12s; position 2 of 5", with
// fewer details of the holder where that takes more than `columns`.
std::string waiting_text(const Busy& busy, std::size_t columns);

// What happened to the command.
enum class CommandFate {
  is_ending,      // because of the loss
  ended_in_time,  // before the lease expired
  was_ended,
  had_ended,         // by itself, before the loss was discovered
  may_have_outlived  // the lease; it is not known which ended first
};

// Renewals that were not confirmed.
struct FailedRenewals {
  std::string why;  // of the last one
  milliseconds lasted{};
  // From the end of the command to that of the lease.
  std::optional<milliseconds> margin = std::nullopt;
};

// "root@web2 took the lock with dlock break".
std::string taker_text(const Taker& taker);

// "lost the lock: the server no longer knows it (restarted or flushed?); the command was
// ended". `on_server`: whether the store is a server, where leases expire. `failed`:
// only if the last renewal failed. `taker`: only if the lease was broken and the store
// knows by whom.
std::string loss_text(Loss loss, CommandFate command, bool on_server,
                      const std::optional<FailedRenewals>& failed,
                      const std::optional<Taker>& taker = std::nullopt);

}  // namespace dlock
