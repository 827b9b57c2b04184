// Whether settings can be right, though nothing is done with them.
#pragma once

#include <string>

#include "cli/settings.hpp"
#include "cli/verb_spec.hpp"

namespace dlock {

// Looks at one setting by itself, common or of `verb`, with the rules that count when the
// verb is called. Throws BadValue, and Failure for a store URL that is none.
void check_value(const VerbSpec& verb, const std::string& name, const Setting& setting);

// Looks at all settings of `verb` together: some exclude each other. Throws UsageError.
void check_together(const VerbSpec& verb, const Settings& settings);

}  // namespace dlock
