// Where settings are from: the command line, the environment, the configuration file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/config_file.hpp"
#include "cli/settings.hpp"
#include "cli/verb_spec.hpp"

namespace dlock {

// What options of the command line were set to, by their long names; "true" for flags.
using OptionValues = std::map<std::string, std::string, std::less<>>;

// The configuration file that `options` or the environment name, or the usual one that
// exists, and whether it was named. All of it can be right. Throws UsageError, and
// Failure for a file that cannot be used.
struct FoundConfig {
  Config config;
  bool is_named = false;
};
FoundConfig found_config(const OptionValues& options);

// What these options, the environment and the file say for `verb`, the first of them
// before the next; of the file the table of the lock before the verb's. `lock` is empty
// if there is none.
Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       const std::string& lock, const Config& config);

// Of these settings what a dlock inside the command needs: see Invocation::passed_on.
std::vector<std::string> passed_on(const Settings& settings);

}  // namespace dlock
