// What stands under which key in the database.
//
// Names have no control characters, and the longest key is as long as LMDB takes.
#pragma once

#include <string>
#include <string_view>

#include "lock/lease.hpp"

namespace dlock::local {

enum class Kept { state, limit, runs };  // of a lock, of a limit, of a lock

constexpr char separator_of(Kept kind) { return static_cast<char>(kind); }

inline std::string key_of(const LockName& name, Kept kind = Kept::state) {
  return name.name_space + separator_of(kind) + name.name;
}

inline bool is_key_of(Kept kind, std::string_view key) {
  return key.find(separator_of(kind)) != std::string_view::npos;
}

// The key of another kind for the name that `key` is of.
inline std::string key_of_same(std::string key, Kept from, Kept to) {
  const auto at = key.find(separator_of(from));
  if (at != std::string::npos) key[at] = separator_of(to);
  return key;
}

}  // namespace dlock::local
