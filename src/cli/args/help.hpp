#pragma once

#include <string>

#include "cli/args/verb_table.hpp"

namespace dlock {

// The help of dlock: its verbs by group, then examples.
std::string general_help();

// The help of one verb, on one screen: its own options and its exit codes.
std::string help_of(const VerbSpec& verb);

// The help of the options of every verb.
std::string help_of_options();

}  // namespace dlock
