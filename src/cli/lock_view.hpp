// Locks as dlock shows them: JSON for programs (lock_json), tables (lock_tables) and
// sentences (holder_text, run_text, event_text) for people.
#pragma once

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

// "2026-11-21T04:00:00.250Z  granted   job  web1, pid 123, 0 free: ./backup.sh"
std::string event_text(const Event& event, bool color);

// "root@web1 (pid 123, ./backup.sh) for 3m12s"
std::string described(const HolderInfo& holder);

// "it ran on web1 at 2026-11-21T04:00:00.250Z: exit 0, took 7m13s"
std::string described(const RunInfo& run);

// "exit 0", "ended by SIGTERM", "timeout, exit 124", "vanished"
std::string outcome_of(const RunInfo& run);

// Of a run that is over.
bool is_failure(const RunInfo& run);

// Why an answer is no grant: "held by root@web1 (pid 123, ./backup.sh) for 3m12s".
std::string refusal_text(const Answer& answer, unsigned slots);

// Why a grant does not hold a lock for so long from now on (is_held_by): "free now",
// "held by root@web1 (pid 123, ./backup.sh) for 3m12s, by another grant".
std::string not_held_text(const LockInfo& lock, Fence fence, milliseconds at_least);

// "waiting: held by root@web1 (pid 123, ./backup.sh) for 3m12s; position 2 of 5", or with
// less about the holder where that takes more than so many columns.
std::string waiting_text(const Busy& busy, std::size_t columns);

// What `dlock status` and `dlock list` print: tables that fit in so many columns, if that
// is not 0.
std::string status_text(const LockInfo& lock, bool color, std::size_t columns = 0);
std::string list_text(const std::vector<LockInfo>& locks, bool color,
                      std::size_t columns = 0);

}  // namespace dlock
