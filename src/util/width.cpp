#include "util/width.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "util/utf8.hpp"

namespace dlock {
namespace {

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
