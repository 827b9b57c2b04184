// Which file has the state of a lock or of a limit, and which byte is its mutex.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "store/local/sessions.hpp"

namespace dlock::local {

enum class Kept { lock, limit };

// Names may hold what a file's name may not, so a file is named by a hash (XXH3, 128
// bits) of namespace and name, and has both inside to compare.
struct FileKey {
  std::string file;  // "0123456789abcdef0123456789abcdef.lock"
  GateByte gate = 0;
};

FileKey key_of(const LockName& name, Kept kept);

// What a file holds: the name, and the value behind it; and the inverse, nothing if the
// bytes are none.
std::string with_name(const LockName& name, std::string_view value);
struct Named {
  LockName name;
  std::string_view value;
};
std::optional<Named> named_in(std::string_view payload);

// Whether a file of the state folder is of this kind.
bool is_file_of(Kept kept, std::string_view file);

}  // namespace dlock::local
