// The state of a limit as the bytes of its file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/local/names.hpp"

namespace dlock::local {

// The state as bytes, and the inverse; nothing if the bytes were not written by `encoded`
// or have invalid contents.
std::string encoded(const LimitState& state);
std::optional<LimitState> decoded_limit(std::string_view bytes);

}  // namespace dlock::local
