// Collects settings from the command line, the environment and the configuration file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/args/config_file.hpp"
#include "cli/args/settings.hpp"
#include "cli/args/verb_spec.hpp"

namespace dlock {

// The options of the command line by their long names; "true" for flags.
using OptionValues = std::map<std::string, std::string, std::less<>>;

// The configuration file that `options` or the environment name, or the first default
// file that exists. The whole file is validated. Throws UsageError, and Failure for a
// file that cannot be used.
struct FoundConfig {
  Config config;
  bool is_named = false;
};
FoundConfig found_config(const OptionValues& options);

// The settings for `verb` from the options, the environment and the file, in order of
// precedence. In the file the table of the lock precedes the verb's. `lock` is empty if
// there is none.
Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       const std::string& lock, const Config& config);

// The settings that a nested dlock needs: see Invocation::passed_on.
std::vector<std::string> passed_on(const Settings& settings);

}  // namespace dlock
