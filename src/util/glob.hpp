// Shell patterns, glob(7).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// Whether `pattern` matches all of `text`: `*`, `?`, `[a-c]`, `[!a-c]` or `[^a-c]`, and
// `\` before a literal character. A `*` also matches slashes and leading dots. Like
// fnmatch(3) without flags, except that both are UTF-8 in every locale and ranges are
// compared by code point. Classes such as `[[:alpha:]]` cover ASCII only.
bool matches_glob(std::string_view pattern, std::string_view text);

// The only text that `pattern` matches; nothing if it can match several texts, or none.
std::optional<std::string> literal_of(std::string_view pattern);

}  // namespace dlock
