// Shows locks, runs and events as JSON and as tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/show/holder_text.hpp"
#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

Json json_of(const HolderInfo& holder);
Json json_of(const RunInfo& run);

// RunInfo::period, as its two parts.
struct CalendarPeriod {
  std::string name;
  std::string began;
};
CalendarPeriod period_of(const RunInfo& run);

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

// The tables that `dlock status` and `dlock list` print, at most `columns` wide; 0 means
// no limit. The `store` is named if it has never known the lock.
std::string status_text(const LockInfo& lock, const std::string& store, bool color,
                        std::size_t columns = 0);
std::string list_text(const std::vector<LockInfo>& locks, bool color,
                      std::size_t columns = 0);

}  // namespace dlock
