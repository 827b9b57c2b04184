// Validates the whole configuration file.
#pragma once

#include <string>
#include <string_view>

#include "cli/args/config_file.hpp"
#include "cli/args/settings.hpp"
#include "cli/args/verb_spec.hpp"

namespace dlock {

// Validates every key and value of every table, whatever verb or lock it is for, so that
// a mistake is found at once and not during a nightly run. Throws UsageError or Failure,
// both with file and line.
void check(const Config& config);

// Whether `verb` acts on the lock `name`, so that the table [lock."NAME"] applies to it.
bool is_about_lock(Verb verb, std::string_view name);

// The value of a key in the table `shown` ("" for the top level) as a setting.
Setting setting_in(const Config& config, const std::string& shown, const std::string& key,
                   const ConfigValue& value);

}  // namespace dlock
