// The names of the keys and channels of locks, and the records that the scripts keep
// there.
//
// Anyone with write access to the server may have written a record: every field is
// checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// The key of a lock: NAMESPACE:{NAME}, each part percent-encoded, so that names and keys
// are one-to-one and braces in a name cannot move it to another hash slot.
std::string key_of(const LockName& lock);

// The lock to which a key belongs (its own key or one derived from it); nothing for keys
// that are not dlock's.
std::optional<LockName> lock_of(std::string_view key);

// The sorted set of the encoded names of a namespace's locks, and the key where the last
// SCAN of the namespace stopped: see scripts/shared/state.lua.
std::string index_of(const std::string& name_space);
std::string cursor_of(const std::string& name_space);

// The lock that an element of the index names; nothing if it names none.
std::optional<LockName> lock_in_index(const std::string& name_space,
                                      std::string_view element);

// A pattern for SCAN that matches all keys of a namespace.
std::string pattern_for(const std::string& name_space);

// A pattern for PSUBSCRIBE that matches the channels of all locks of a namespace.
std::string channel_pattern_for(const std::string& name_space);

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
