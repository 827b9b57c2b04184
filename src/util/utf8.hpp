// UTF-8, a character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dlock {

struct Character {
  std::size_t bytes = 0;
  std::uint32_t code_point = 0;
};

// The character at the start of `text`, which is not empty. It has 0 bytes if no valid
// UTF-8 is there (overlong forms and surrogates are not valid).
Character first_character(std::string_view text);

}  // namespace dlock
