// Parses the records of a lock that the scripts keep as text.
//
// Anyone with write access to the server may have written them: every field is checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/event.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// An event, and for a grant how long its lease lasts without renewal; or only how long
// the lock stays held after its run has ended.
struct Published {
  Event event;
  milliseconds lasts{};  // 0 if no lease begins
  bool is_event = true;
};

// A message of events.lua on `channel`; nothing if `text` is not one.
std::optional<Published> published_from(std::string_view channel, std::string_view text);

// Who has taken the lock from the holder in this record, if it says so.
std::optional<Taker> taker_from(std::string_view text);

// From pairs of a holder's record and the milliseconds that its lease has left. Nothing
// if they do not have that shape.
std::optional<std::vector<HolderInfo>> holders_from(const Reply& pairs, WallTime now);

// The newer claim that this record describes.
Superseded newer_from(std::string_view text);

std::optional<WaiterInfo> waiter_from(std::string_view record, WallTime now);
std::optional<RunInfo> run_from(std::string_view record);

// From the reply of inspect.lua; nothing if it does not have that shape.
std::optional<LockInfo> lock_from(const Reply& reply, const LockName& lock);

// From the reply of history.lua, for LockInspector::history; nothing if it does not have
// that shape.
std::optional<LockHistory> history_from(const Reply& reply, const LockName& lock);

}  // namespace dlock::redis
