// The verbs and options of the command line, as tables for the parser and --help.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "cli/args/verb.hpp"

namespace dlock {

struct OptionSpec {
  std::string_view name;         // long, without dashes
  char letter;                   // 0 if none
  std::string_view value;        // placeholder of its value, for help; empty for a flag
  std::string_view environment;  // variable that sets it, or empty
  std::string_view help;
};

// In the order of --help.
enum class VerbGroup { run, by_hand, look, operate, rate_and_cache };

struct VerbSpec {
  Verb verb;
  VerbGroup group;
  std::string_view name;
  std::string_view usage;
  std::string_view help;
  std::size_t least_operands;
  std::size_t most_operands;
  const OptionSpec* first;  // its own options
  const OptionSpec* last;

  std::span<const OptionSpec> own() const { return {first, last}; }
};

// In the order of --help.
std::span<const VerbSpec> all_verbs();
// The options of every verb.
std::span<const OptionSpec> common_specs();

// Null if there is no such verb.
const VerbSpec* verb_named(std::string_view name);

// The option of `verb`, its own or a common one, with this long name or letter; null if
// there is none.
const OptionSpec* option_named(const VerbSpec& verb, std::string_view name);

// The option with this long name among `specs`; null if there is none.
const OptionSpec* option_in(std::span<const OptionSpec> specs, std::string_view name);

std::vector<std::string_view> names_of(std::span<const OptionSpec> specs);
std::vector<std::string_view> verb_names();

}  // namespace dlock
