// Finds the known word that was probably meant by an unknown one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlock {

// The number of letters that were omitted, added, changed, or swapped with the next one
// (Damerau-Levenshtein distance, each letter edited at most once). Letters are bytes.
std::size_t edits_between(std::string_view one, std::string_view other);

// The only word that begins with `mistyped`; else the word with the fewest edits, if
// these are at most two and fewer than half the letters of `mistyped`. Among several, the
// one with the longest common prefix, then the first. Nothing if no word is that near.
std::optional<std::string_view> nearest(std::string_view mistyped,
                                        std::span<const std::string_view> words);

// The nearest word as the end of a message, ": did you mean '--wait'?"; empty if there is
// none.
std::string did_you_mean(std::string_view mistyped,
                         std::span<const std::string_view> words,
                         std::string_view dashes = "");

}  // namespace dlock
