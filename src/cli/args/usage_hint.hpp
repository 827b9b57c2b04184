// Explains what to type in place of words that dlock does not accept, or that it takes
// for something other than what was probably meant.
#pragma once

#include <cstddef>
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

// Warnings about variables that begin with DLOCK_, have no effect, and were probably
// meant to set something: an option that has no variable, or a misspelled variable. Other
// variables are ignored: Kubernetes sets DLOCK_PORT and the like if a service is called
// dlock.
std::vector<std::string> unknown_variables(const char* const* environment);

}  // namespace dlock
