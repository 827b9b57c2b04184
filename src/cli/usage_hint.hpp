// What to type instead of words that dlock cannot take, or takes for something else than
// was probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb_spec.hpp"

namespace dlock {

// What is said of a first word that is no verb.
std::string unknown_verb(const std::string& word);

// What is said of a word that is no option of `verb`; without one it stood where a verb
// was to be.
std::string unknown_option(const std::string& word, const VerbSpec* verb);

// "a duration is one word: --wait 5m" if the word at `place` is a unit of time, and the
// one before it is a plain number for an option that takes a duration; else empty. `args`
// are without the verb.
std::string split_duration(const std::vector<std::string>& args, std::size_t place,
                           const VerbSpec& verb);

// What to say of variables that are called like dlock's and are none, but were probably
// meant to set something: an option that has no variable, or a mistyped variable's name.
// All others are left alone: services of a Kubernetes cluster are told of as DLOCK_PORT,
// if one of them is called dlock.
std::vector<std::string> unknown_variables(const char* const* environment);

}  // namespace dlock
