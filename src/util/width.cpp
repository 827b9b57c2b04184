#include "util/width.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace dlock {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// The C library's wcwidth(3) knows only what the locale lets it, and a static program has
// no locales. Characters that combine with the one before them, in common scripts.
constexpr Range without_width[] = {
    {0x0300, 0x036F},   {0x0483, 0x0489},   {0x0591, 0x05BD}, {0x0610, 0x061A},
    {0x064B, 0x065F},   {0x0900, 0x0902},   {0x093C, 0x093C}, {0x0941, 0x0948},
    {0x094D, 0x094D},   {0x0E31, 0x0E31},   {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E},
    {0x1AB0, 0x1AFF},   {0x1DC0, 0x1DFF},   {0x200B, 0x200D}, {0x20D0, 0x20FF},
    {0x302A, 0x302D},   {0x3099, 0x309A},   {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    {0x1F3FB, 0x1F3FF}, {0xE0100, 0xE01EF},
};

// East Asian Wide and Fullwidth (Unicode's EastAsianWidth.txt), unassigned ones between
// them included.
constexpr Range wide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
    {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
    {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
    {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
    {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
    {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
    {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
    {0x3041, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E},
    {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C},
    {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3}, {0x1F3E0, 0x1F3F0},
    {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC},
    {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A},
    {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5},
    {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2}, {0x1F6D5, 0x1F6D7}, {0x1F6DC, 0x1F6DF},
    {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1F93A},
    {0x1F93C, 0x1F945}, {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

template <std::size_t size>
bool is_among(std::uint32_t code_point, const Range (&ranges)[size]) {
  const auto* after = std::upper_bound(
      std::begin(ranges), std::end(ranges), code_point,
      [](std::uint32_t point, const Range& range) { return point < range.first; });
  return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

std::size_t columns_of_point(std::uint32_t code_point) {
  if (code_point < 0x300) return 1;
  if (is_among(code_point, without_width)) return 0;
  return is_among(code_point, wide) ? 2 : 1;
}

// A character, or a sequence that sets a colour.
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
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {};
  std::size_t bytes = 1;
  while (bytes < text.size() &&
         (static_cast<unsigned char>(text[bytes]) & 0xC0u) == 0x80) {
    ++bytes;
  }
  std::uint32_t code_point = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    code_point = (code_point << 6) | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {bytes, columns_of_point(code_point), false};
}

}  // namespace

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
