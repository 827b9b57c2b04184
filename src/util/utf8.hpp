// Decodes UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dlock {

struct Character {
  std::size_t bytes = 0;
  std::uint32_t code_point = 0;
};

// The character at the start of `text`, which must not be empty. It has 0 bytes if there
// is no valid UTF-8 (overlong forms and surrogates are invalid).
Character first_character(std::string_view text);

}  // namespace dlock
