#include "util/glob.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "util/utf8.hpp"

namespace dlock {
namespace {

struct Class {
  std::string_view name;
  int (*has)(int);
};
constexpr Class classes[] = {
    {"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank},
    {"cntrl", std::iscntrl}, {"digit", std::isdigit}, {"graph", std::isgraph},
    {"lower", std::islower}, {"print", std::isprint}, {"punct", std::ispunct},
    {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};

// Removes a character from the text, or a byte if there is no valid UTF-8, and returns
// its bytes: UTF-8 sorts like the code points it encodes.
std::string_view take_character(std::string_view& text) {
  const auto size = std::max<std::size_t>(first_character(text).bytes, 1);
  const auto character = text.substr(0, size);
  text.remove_prefix(size);
  return character;
}

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
  const auto* named = std::find_if(std::begin(classes), std::end(classes),
                                   [&](const Class& c) { return c.name == name; });
  const auto byte = static_cast<unsigned char>(character.front());
  return named != std::end(classes) && byte < 0x80 && named->has(byte) != 0;
}

// A character within brackets, or an end of a range; `\c`, `[.c.]` and `[=c=]` are `c`.
std::string_view take_member(std::string_view& rest) {
  for (const char mark : {'.', '='}) {
    if (const auto named = take_named(rest, mark)) return *named;
  }
  if (rest.size() > 1 && rest.front() == '\\') rest.remove_prefix(1);
  return take_character(rest);
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
  const auto character = take_character(text);
  if (pattern.front() == '[') {
    if (const auto has = take_choice(pattern, character)) return *has;
  }
  const auto wanted = take_character(pattern);
  if (wanted == "?") return true;
  if (wanted != "\\") return wanted == character;
  return !pattern.empty() && take_character(pattern) == character;
}

}  // namespace

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
