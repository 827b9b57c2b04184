// What --help prints, put together only where somebody asks for it.
#pragma once

#include <span>
#include <string>

#include "cli/verb_spec.hpp"

namespace dlock {

// Of dlock itself: the verbs in their groups, then examples.
std::string general_help(std::span<const VerbSpec> verbs);

// Of one verb: its own options, the common ones, its exit codes.
std::string help_of(const VerbSpec& verb, std::span<const OptionSpec> common);

}  // namespace dlock
