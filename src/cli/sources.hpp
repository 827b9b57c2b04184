// Where settings are from: the command line, the environment, the configuration file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "cli/verb_spec.hpp"

namespace dlock {

// What options of the command line were set to, by their long names; "true" for flags.
using OptionValues = std::map<std::string, std::string, std::less<>>;

// What these options, the environment and the configuration file say for `verb`, the
// first of them before the next. Puts the file's path into `config` if it was named.
// Throws UsageError, and Failure for a file that cannot be used.
Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       std::string& config);

// Of these settings what a dlock inside the command needs: see Invocation::passed_on.
std::vector<std::string> passed_on(const Settings& settings);

}  // namespace dlock
