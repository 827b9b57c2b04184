#include "util/utf8.hpp"

#include <utf8proc.h>

namespace dlock {

Character first_character(std::string_view text) {
  // Most text is ASCII, which needs no library and no pages of its memory.
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  if (bytes[0] < 0x80) return {1, bytes[0]};
  utf8proc_int32_t code_point = -1;
  const auto length =
      ::utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (length <= 0) return {};
  return {static_cast<std::size_t>(length), static_cast<std::uint32_t>(code_point)};
}

}  // namespace dlock
