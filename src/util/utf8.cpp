#include "util/utf8.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <iterator>

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

struct Class {
  std::string_view name;
  int (*has)(int);
};
constexpr Class classes[] = {
    {"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank},
    {"cntrl", std::iscntrl}, {"digit", std::isdigit}, {"graph", std::isgraph},
    {"lower", std::islower}, {"print", std::isprint}, {"punct", std::ispunct},
    {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};

// Removes `[:...:]` or the like from the start of `rest` and returns its content.
std::optional<std::string_view> take_named(std::string_view& rest, char mark) {
  if (rest.size() < 2 || rest[0] != '[' || rest[1] != mark) return std::nullopt;
  const char end[] = {mark, ']'};
  const auto at = rest.find(std::string_view(end, sizeof end), 2);
  if (at == std::string_view::npos) return std::nullopt;
  const auto name = rest.substr(2, at - 2);
  rest.remove_prefix(at + sizeof end);
  return name;
}

bool class_has(std::string_view name, std::string_view character) {
  const auto* named = std::ranges::find(classes, name, &Class::name);
  const auto byte = static_cast<unsigned char>(character.front());
  return named != std::end(classes) && byte < 0x80 && named->has(byte) != 0;
}

// A character within brackets, or an end of a range; `\c`, `[.c.]` and `[=c=]` are `c`.
std::string_view take_member(std::string_view& rest) {
  for (const char mark : {'.', '='}) {
    if (const auto named = take_named(rest, mark)) return *named;
  }
  if (rest.size() > 1 && rest.front() == '\\') rest.remove_prefix(1);
  return take_character(rest).text;
}

// Removes the bracket expression at the start of `pattern` and returns whether it
// contains the character. Nothing if the bracket is not closed.
std::optional<bool> take_choice(std::string_view& pattern, std::string_view character) {
  auto rest = pattern.substr(1);
  const bool is_inverted = rest.starts_with('!') || rest.starts_with('^');
  if (is_inverted) rest.remove_prefix(1);
  bool has = false;
  for (bool is_first = true; is_first || !rest.starts_with(']'); is_first = false) {
    if (rest.empty()) return std::nullopt;
    if (const auto name = take_named(rest, ':')) {
      has = has || class_has(*name, character);
      continue;
    }
    const auto first = take_member(rest);
    auto last = first;
    if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']') {
      rest.remove_prefix(1);
      last = take_member(rest);
    }
    has = has || (first <= character && character <= last);
  }
  pattern = rest.substr(1);
  return has != is_inverted;
}

// Removes a character from the text and its match from the pattern. Returns false if it
// does not match.
bool take_match(std::string_view& pattern, std::string_view& text) {
  if (pattern.empty() || text.empty()) return false;
  const auto character = take_character(text).text;  // which sorts like its code point
  if (pattern.front() == '[') {
    if (const auto has = take_choice(pattern, character)) return *has;
  }
  const auto wanted = take_character(pattern).text;
  if (wanted == "?") return true;
  if (wanted != "\\") return wanted == character;
  return !pattern.empty() && take_character(pattern).text == character;
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

TakenCharacter take_character(std::string_view& text) {
  const auto first = first_character(text);
  const auto size = std::max<std::size_t>(first.bytes, 1);
  const TakenCharacter taken{first, text.substr(0, size)};
  text.remove_prefix(size);
  return taken;
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

bool matches_glob(std::string_view pattern, std::string_view text) {
  // The pattern after the last `*`, and the first text position that it has not been
  // tried at.
  std::optional<std::string_view> behind_star;
  std::string_view untried;
  while (!pattern.empty() || !text.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      behind_star = pattern;
      untried = text;
    } else if (!take_match(pattern, text)) {
      // An earlier `*` cannot match where this one does not.
      if (!behind_star || untried.empty()) return false;
      take_character(untried);
      pattern = *behind_star;
      text = untried;
    }
  }
  return true;
}

std::optional<std::string> literal_of(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (std::string_view("*?[").find(pattern[i]) != std::string_view::npos) {
      return std::nullopt;
    }
    if (pattern[i] == '\\' && ++i == pattern.size()) return std::nullopt;
    text += pattern[i];
  }
  return text;
}

}  // namespace dlock
