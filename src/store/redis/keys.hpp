// The names of the keys and channels of locks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"

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

}  // namespace dlock::redis
