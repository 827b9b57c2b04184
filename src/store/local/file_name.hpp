// Which file holds the state of a lock or a limit, and which byte is its mutex.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "store/local/sessions.hpp"

namespace dlock::local {

enum class Kept { lock, limit };

// Lock names may contain characters that file names may not. So a file is named after a
// hash (XXH3, 128 bits) of namespace and name, and contains both for comparison.
struct FileKey {
  std::string file;  // "0123456789abcdef0123456789abcdef.lock"
  MutexByte mutex = 0;
};

FileKey key_of(const LockName& name, Kept kept);

// The payload of a file: the name followed by the value; and the inverse, which is
// nothing if the bytes do not have that form.
std::string with_name(const LockName& name, std::string_view value);
struct Named {
  LockName name;
  std::string_view value;
};
std::optional<Named> named_in(std::string_view payload);

// Whether a file of the state folder is of this kind.
bool is_file_of(Kept kept, std::string_view file);

}  // namespace dlock::local
