// The message about a lock that a run has lost.
#pragma once

#include <optional>
#include <string>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock {

// What happened to the command.
enum class CommandFate {
  ended_in_time,  // before the lease expired
  was_ended,
  had_ended,         // by itself, before the loss was discovered
  may_have_outlived  // the lease; it is not known which ended first
};

// Renewals that were not confirmed.
struct FailedRenewals {
  std::string why;  // of the last one
  milliseconds lasted{};
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
