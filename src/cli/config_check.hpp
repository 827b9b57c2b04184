// Whether all of a configuration file can be right, and what it says then.
#pragma once

#include <string>
#include <string_view>

#include "cli/config_file.hpp"
#include "cli/settings.hpp"
#include "cli/verb_spec.hpp"

namespace dlock {

// Looks at every key and value of every table, whatever verb or lock it is for: a mistake
// is found at once and not at night. Throws UsageError or Failure, both with file and
// line.
void check(const Config& config);

// Whether what `verb` does is about the lock `name`, so that [lock."NAME"] holds for it.
bool is_about_lock(Verb verb, std::string_view name);

// A value of the table `shown` ("" for the top level) as a setting.
Setting setting_in(const Config& config, const std::string& shown, const std::string& key,
                   const ConfigValue& value);

}  // namespace dlock
