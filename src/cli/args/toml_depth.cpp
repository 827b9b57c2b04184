#include "cli/args/toml_depth.hpp"

#include <algorithm>
#include <vector>

namespace dlock {
namespace {

// The position after the string that begins at `begin`.
std::size_t end_of_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const auto rest = toml.substr(begin);
  const auto quotes = std::min(rest.find_first_not_of(quote), rest.size());
  const bool has_lines = quotes >= 3;
  if (quotes == 2) return begin + quotes;  // an empty string
  const auto closing = rest.substr(0, has_lines ? 3 : 1);
  for (std::size_t at = closing.size(); at < rest.size(); ++at) {
    if (quote == '"' && rest[at] == '\\') {
      ++at;
    } else if (rest.substr(at).starts_with(closing)) {
      at += closing.size();
      // Quotes before the closing ones belong to the string.
      while (has_lines && at < rest.size() && rest[at] == quote) ++at;
      return begin + at;
    } else if (!has_lines && rest[at] == '\n') {
      return begin + at;
    }
  }
  return toml.size();
}

}  // namespace

std::optional<std::size_t> line_nested_too_deeply(std::string_view toml) {
  std::vector<std::size_t> around = {0};  // the depths of what is open here
  std::size_t depth = 0;                  // of the current key or value
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '"' || c == '\'') {
      at = end_of_string(toml, at);
      continue;
    }
    switch (c) {
      case '.': ++depth; break;
      case '[':
      case '{': around.push_back(++depth); break;
      case ']':
      case '}':
        if (around.size() > 1) around.pop_back();
        depth = around.back();
        break;
      case ',':
      case '\n': depth = around.back(); break;
      default: break;
    }
    if (depth > deepest_toml) {
      const auto before = toml.substr(0, at);
      return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace dlock
