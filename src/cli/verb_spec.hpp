// What the command line can say, as tables: what the parser and --help both go by.
#pragma once

#include <cstddef>
#include <string_view>

#include "cli/verb.hpp"

namespace dlock {

struct OptionSpec {
  std::string_view name;         // long, without dashes
  char letter;                   // 0 if none
  std::string_view value;        // what it takes, for help; empty for a flag
  std::string_view environment;  // the variable that sets it, or empty
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
  const OptionSpec* first;
  const OptionSpec* last;
};

}  // namespace dlock
