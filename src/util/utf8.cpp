#include "util/utf8.hpp"

#include <utf8proc.h>

namespace dlock {
namespace {

enum class Script { latin, greek_or_cyrillic, other };

bool is_letter(std::uint32_t code_point) {
  const auto category = ::utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

Script script_of(std::uint32_t code_point) {
  if (!is_letter(code_point)) return Script::other;
  if (code_point < 0x250) return Script::latin;
  const bool is_other_european = code_point >= 0x370 && code_point < 0x530;
  return is_other_european ? Script::greek_or_cyrillic : Script::other;
}

// Whether Unicode has a shorter or another way to write these two (its normal form C).
bool is_written_otherwise(std::uint32_t before, std::uint32_t code_point) {
  utf8proc_int32_t both[8] = {static_cast<utf8proc_int32_t>(before)};
  const utf8proc_ssize_t start = before == 0 ? 0 : 1;
  int boundary = 0;
  const auto added =
      ::utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), both + start,
                                8 - start, UTF8PROC_DECOMPOSE, &boundary);
  if (added < 0 || added > 8 - start) return false;
  const auto length = ::utf8proc_normalize_utf32(
      both, start + added,
      static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return length != start + 1 || both[start] != static_cast<utf8proc_int32_t>(code_point);
}

}  // namespace

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

Sight sight_of(std::uint32_t code_point) {
  if (code_point >= 0x21 && code_point < 0x7F) return Sight::seen;
  constexpr std::uint32_t blank_braille = 0x2800;
  const auto* property =
      ::utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  if (property->ignorable || code_point == blank_braille) return Sight::hidden;
  switch (property->category) {
    case UTF8PROC_CATEGORY_ZS: return Sight::blank;
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS: return Sight::hidden;
    default: return Sight::seen;
  }
}

bool is_look_alike(std::uint32_t before, std::uint32_t code_point, std::uint32_t after) {
  if (code_point < 0x80) return false;
  const bool mixes =
      script_of(code_point) == Script::greek_or_cyrillic &&
      (script_of(before) == Script::latin || script_of(after) == Script::latin);
  return mixes || is_written_otherwise(before, code_point);
}

}  // namespace dlock
