#include "util/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace dlock {
namespace {

enum class WritingSystem { latin, greek_or_cyrillic, other };

bool is_letter(std::uint32_t code_point) {
  const auto category = ::utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

WritingSystem script_of(std::uint32_t code_point) {
  if (!is_letter(code_point)) return WritingSystem::other;
  if (code_point < 0x250) return WritingSystem::latin;
  const bool is_other_european = code_point >= 0x370 && code_point < 0x530;
  return is_other_european ? WritingSystem::greek_or_cyrillic : WritingSystem::other;
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

// A character, or a sequence that sets a color.
struct Piece {
  std::size_t bytes = 1;
  std::size_t columns = 1;
  bool is_color = false;
};

Piece first_piece(std::string_view text) {
  constexpr char escape = '\x1b';
  if (text.front() == escape) {
    const auto end = std::min(text.find('m'), text.size() - 1);
    return {end + 1, 0, true};
  }
  const auto [bytes, code_point] = first_character(text);
  if (bytes <= 1) return {};
  // The C library's wcwidth(3) depends on the locale, and a static program has no
  // locales.
  const auto columns = ::utf8proc_charwidth(static_cast<utf8proc_int32_t>(code_point));
  return {bytes, static_cast<std::size_t>(columns), false};
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
  const bool mixes = script_of(code_point) == WritingSystem::greek_or_cyrillic &&
                     (script_of(before) == WritingSystem::latin ||
                      script_of(after) == WritingSystem::latin);
  return mixes || is_written_otherwise(before, code_point);
}

std::size_t columns_of(std::string_view line) {
  std::size_t columns = 0;
  while (!line.empty()) {
    const auto piece = first_piece(line);
    columns += piece.columns;
    line.remove_prefix(piece.bytes);
  }
  return columns;
}

std::string cut_to(std::string_view line, std::size_t columns) {
  if (columns_of(line) <= columns) return std::string(line);
  constexpr std::string_view dots = "...";
  const std::string_view end = columns >= 2 * dots.size() ? dots : "";
  const auto room = columns - end.size();
  std::string out;
  bool has_color = false;
  for (std::size_t used = 0; !line.empty();) {
    const auto piece = first_piece(line);
    used += piece.columns;
    if (used > room) break;
    has_color = has_color || piece.is_color;
    out += line.substr(0, piece.bytes);
    line.remove_prefix(piece.bytes);
  }
  out += end;
  return has_color ? out + "\x1b[0m" : out;
}

}  // namespace dlock
