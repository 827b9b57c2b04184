// The state of a lock as the bytes of its file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "store/local/names.hpp"

namespace dlock::local {

// The state as bytes.
std::string encoded(const State& state);

// How many more bytes the state may need once its runs have ended and its waiters have
// been promised the lock or deduplicated.
std::size_t room_for_ends(const State& state);

// The inverse of encoded(); nothing if the bytes were not written by `encoded` or have
// invalid contents: too many elements, a time before the epoch, an invalid fence. The
// result is safe to compute with, whoever wrote the bytes.
std::optional<State> decoded(std::string_view bytes);

}  // namespace dlock::local
