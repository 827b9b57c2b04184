#pragma once

#include <string>
#include <vector>

#include "cli/args/verb_table.hpp"

namespace dlock {

// Every status that dlock itself can exit with for this verb, in ascending order, without
// the command's own status and without deaths by signal.
std::vector<ExitText> exit_texts(const VerbSpec& verb);

// The help of dlock: its verbs by group, then examples.
std::string general_help();

// The help of one verb, on one screen: its own options and its exit codes.
std::string help_of(const VerbSpec& verb);

// The help of the options of every verb.
std::string help_of_options();

}  // namespace dlock
