// Explains what to type in place of words that dlock does not accept, or that it takes
// for something other than what was probably meant.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/verb_table.hpp"

namespace dlock {

// The error for a first word that is not a verb.
std::string unknown_verb(const std::string& word);

// The error for a word that is not an option of `verb`. Without a verb, the word was
// found where a verb was expected.
std::string unknown_option(const std::string& word, const VerbSpec* verb);

// "a duration is one word: --wait 5m" if the word at `place` is a unit of time or size,
// and the word before it is a plain number for an option that takes such a value; else
// empty. `args` do not include the verb.
std::string split_value(const std::vector<std::string>& args, std::size_t place,
                        const VerbSpec& verb);

// A warning about the variable DLOCK_`name` if it has no effect, and was probably meant
// to set something: an option that has no variable, or a misspelled variable. Else empty:
// Kubernetes sets DLOCK_PORT and the like if a service is called dlock.
std::string unknown_variable(std::string_view name);

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
