// Validates settings without using them.
#pragma once

#include <string>

#include "cli/args/settings.hpp"
#include "cli/args/verb_spec.hpp"

namespace dlock {

// Validates one setting, common or of `verb`, with the rules that apply when the verb
// runs. Throws BadValue, and Failure for an invalid store URL.
void check_value(const VerbSpec& verb, const std::string& name, const Setting& setting);

// Validates all settings of `verb` together, because some exclude each other. Throws
// UsageError.
void check_together(const VerbSpec& verb, const Settings& settings);

}  // namespace dlock
