// Decodes UTF-8, one character at a time, tells what its characters look like, and
// matches shell patterns, glob(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock {

struct Character {
  std::size_t bytes = 0;
  std::uint32_t code_point = 0;
};

// The character at the start of `text`, which must not be empty. It has 0 bytes if there
// is no valid UTF-8 (overlong forms and surrogates are invalid).
Character first_character(std::string_view text);

// Removes it, or a byte if there is no valid UTF-8, and returns its bytes.
struct TakenCharacter : Character {
  std::string_view text;
  bool is_valid() const { return bytes > 0; }
};
TakenCharacter take_character(std::string_view& text);

// What a reader sees of a character. `hidden`: nothing (control and format characters,
// fillers, variation selectors). `blank`: a space of any width.
enum class Sight { seen, blank, hidden };

Sight sight_of(std::uint32_t code_point);

// Whether readers take `code_point` for another character between these two (0: none): it
// belongs to an accented letter that Unicode writes as one character, stands for another
// one (the sign of the kelvin), or is a Greek or Cyrillic letter beside a Latin one.
bool is_look_alike(std::uint32_t before, std::uint32_t code_point, std::uint32_t after);

// The number of columns of a line of printable UTF-8: two for wide characters, none for
// combining characters and for sequences that set a color.
std::size_t columns_of(std::string_view line);

// `line` if it fits in `columns`; else as much of it as fits before "...", or without
// "..." if there is hardly any room. A color ends with the line.
std::string cut_to(std::string_view line, std::size_t columns);

// Whether `pattern` matches all of `text`: `*`, `?`, `[a-c]`, `[!a-c]` or `[^a-c]`, and
// `\` before a literal character. A `*` also matches slashes and leading dots. Like
// fnmatch(3) without flags, except that both are UTF-8 in every locale and ranges are
// compared by code point. Classes such as `[[:alpha:]]` cover ASCII only.
bool matches_glob(std::string_view pattern, std::string_view text);

// The only text that `pattern` matches; nothing if it can match several texts, or none.
std::optional<std::string> literal_of(std::string_view pattern);

}  // namespace dlock
