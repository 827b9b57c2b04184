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

// A pattern for SCAN that matches all keys of a namespace.
std::string pattern_for(const std::string& name_space);

// A pattern for PSUBSCRIBE that matches the channels of all locks of a namespace.
std::string channel_pattern_for(const std::string& name_space);

}  // namespace dlock::redis
