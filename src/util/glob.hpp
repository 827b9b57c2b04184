// Patterns as shells have them, glob(7).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// Whether `pattern` matches all of `text`: `*`, `?`, `[a-c]`, `[!a-c]` or `[^a-c]`, and
// `\` before what is to stand for itself. A `*` matches slashes and leading dots, too. As
// fnmatch(3) without flags, but both are UTF-8 whatever the locale is, and ranges go by
// code points. Classes such as `[[:alpha:]]` are those of ASCII.
bool matches_glob(std::string_view pattern, std::string_view text);

// The only text that `pattern` matches; nothing if there can be several, or none.
std::optional<std::string> literal_of(std::string_view pattern);

}  // namespace dlock
