// How deeply a TOML file is nested. The parser calls itself for each level, so a file
// that is nested too deeply would exceed the stack, or take minutes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace dlock {

inline constexpr std::size_t deepest_toml = 100;

// The number of the line in which arrays, inline tables and the parts of dotted keys are
// together nested more deeply than that; nothing if there is none. The dot of a number
// counts, too. Does not check that `toml` is valid.
std::optional<std::size_t> line_nested_too_deeply(std::string_view toml);

}  // namespace dlock
