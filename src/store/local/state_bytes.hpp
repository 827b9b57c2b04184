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

// How many bytes more it may take once its runs have ended, and those who wait are
// promised the lock or hear that they need not run.
std::size_t room_for_ends(const State& state);

// The inverse of encoded(); nothing if the bytes are not what `encoded` wrote, or say
// what cannot be: more than there may be of something, a time before the epoch, a fence
// that is none. What is returned can be computed with, whoever wrote it.
std::optional<State> decoded(std::string_view bytes);

}  // namespace dlock::local
