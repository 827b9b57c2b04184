// What the scripts keep of a lock, read from the text it is kept as.
//
// Anybody who may write to the server may have written these: nothing is taken for
// granted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/redis/event_stream.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// Who has taken the lock from the holder that is shown by such a line, if it says so.
std::optional<Taker> taker_from(std::string_view text);

// The pairs of a holder's record and how many milliseconds its lease has left.
// Nothing if they are not of that shape.
std::optional<std::vector<HolderInfo>> holders_from(const Reply& pairs, WallTime now);

// Who is shown by such a line; host and pid alone.
WaiterInfo party_from(std::string_view text);

std::optional<WaiterInfo> waiter_from(std::string_view record, WallTime now);
std::optional<RunInfo> run_from(std::string_view record);

// The lock as inspect.lua tells of it; nothing if it is not of that shape.
std::optional<LockInfo> lock_from(const Reply& reply, const LockName& lock);

// The runs as history.lua tells of them, for Store::history; nothing if they are not of
// that shape.
std::optional<LockHistory> history_from(const Reply& reply, const LockName& lock);

}  // namespace dlock::redis
