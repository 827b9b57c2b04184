// Builds the text of --help, only when it is requested.
#pragma once

#include <span>
#include <string>

#include "cli/args/verb_spec.hpp"

namespace dlock {

// The help of dlock: its verbs by group, then examples.
std::string general_help(std::span<const VerbSpec> verbs);

// The help of one verb: its own options, the common options and its exit codes.
std::string help_of(const VerbSpec& verb, std::span<const OptionSpec> common);

}  // namespace dlock
