// Shows locks, runs and events: as JSON, as tables, and in messages (holder_text).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

Json json_of(const HolderInfo& holder);
Json json_of(const RunInfo& run);
Json json_of(const LockInfo& lock);

// A line of `dlock watch --json`.
Json json_of(const Event& event);

// Null if there is none.
template <typename Value>
Json json_or_null(const std::optional<Value>& value) {
  return value ? json_of(*value) : Json(nullptr);
}

// "2026-11-21T04:00:00.250Z  granted   job  web1, pid 123, 0 free: ./backup.sh"
std::string event_text(const Event& event, bool color);

// "root@web1 (pid 123, ./backup.sh) for 3m12s"
std::string described(const HolderInfo& holder);

// "it ran on web1 at 2026-11-21T04:00:00.250Z: exit 0, took 7m13s"
std::string described(const RunInfo& run);

// "exit 0", "ended by SIGTERM", "timeout, exit 124", "vanished"
std::string outcome_of(const RunInfo& run);

// Whether a run that is over failed.
bool is_failure(const RunInfo& run);

// Why a request was not granted: "held by root@web1 (pid 123, ./backup.sh) for 3m12s".
std::string refusal_text(const Answer& answer, unsigned slots);

// What to add for a person at a terminal who did not wait for a lock that is held: how to
// queue. Empty elsewhere, and for other answers.
std::string queue_hint(const Answer& answer);

// Why a grant does not hold a lock for that long from now on (is_held_by): "no longer
// held by this grant: the lock is free".
std::string not_held_text(const LockInfo& lock, Fence fence, milliseconds at_least);

// "waiting: held by root@web1 (pid 123, ./backup.sh) for 3m12s; position 2 of 5", with
// fewer details of the holder where that takes more than `columns`.
std::string waiting_text(const Busy& busy, std::size_t columns);

// The tables that `dlock status` and `dlock list` print, at most `columns` wide; 0 means
// no limit. The `store` is named if it has never known the lock.
std::string status_text(const LockInfo& lock, const std::string& store, bool color,
                        std::size_t columns = 0);
std::string list_text(const std::vector<LockInfo>& locks, bool color,
                      std::size_t columns = 0);

}  // namespace dlock
