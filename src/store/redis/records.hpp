// What the scripts keep of a lock, read from the text it is kept as, and the names of
// keys.
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
#include "util/failure.hpp"

namespace dlock::redis {

// The key of a lock: NAMESPACE:{NAME}, each part percent-encoded, so that names and keys
// are one-to-one and braces in a name cannot move it to another hash slot.
std::string key_of(const LockName& lock);

// The lock that a key of dlock's belongs to (the lock's own or one derived from it);
// nothing for other keys.
std::optional<LockName> lock_of(std::string_view key);

// A pattern for SCAN that matches all keys of a namespace.
std::string pattern_for(const std::string& name_space);

// A pattern for PSUBSCRIBE that matches the channels of all locks of a namespace.
std::string channel_pattern_for(const std::string& name_space);

// The name of the account that this process is of.
const std::string& own_user();

// Who claims a lock, as `status` shows it, in one line of JSON.
std::string party_text(const Claim& claim);

// Who takes a lock from its holders, in the same way.
std::string taker_text();

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

// How a run ended, as it is kept: JSON.
std::string run_end_text(const RunEnd& end, const std::string& host,
                         const std::string& user);

// What an error reply means to the caller: what passes by itself is unreachable, what an
// administrator has to change is rejected or misconfigured.
Failure failure_from(const Reply& error, const std::string& server);

}  // namespace dlock::redis
