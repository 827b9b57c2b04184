// Which of the words that there are was meant by one that there is not.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dlock {

// How many letters were left out, added, changed or swapped with the next one between
// the two (Damerau and Levenshtein, each letter touched once). Letters are bytes.
std::size_t edits_between(std::string_view one, std::string_view other);

// The only one of `words` that begins with `mistyped`; else the one with the fewest
// edits, if they are two at most and fewer than half the letters of `mistyped`. Of
// several the one that begins most like it, then the first. Nothing if none is that near.
std::optional<std::string_view> nearest(std::string_view mistyped,
                                        std::span<const std::string_view> words);

// That as the end of a message, ": did you mean '--wait'?"; empty if nothing is near.
std::string did_you_mean(std::string_view mistyped,
                         std::span<const std::string_view> words,
                         std::string_view dashes = "");

}  // namespace dlock
