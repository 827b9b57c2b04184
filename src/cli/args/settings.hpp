// Settings from the command line, the environment and the configuration file: where they
// come from, whether they are valid, and which of them are in force.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/config_file.hpp"
#include "cli/args/values.hpp"
#include "util/failure.hpp"

namespace dlock {

enum class Verb;
struct VerbSpec;

// A value and where it came from, for messages and to tell errors in a file from errors
// on the command line.
struct Setting {
  // In order of precedence.
  enum class Source { command_line, environment, lock_table, file };
  std::string value;
  Source source = Source::command_line;
  std::string origin;  // "--wait", "DLOCK_STORE", "/etc/dlock/config.toml:3: run.wait"
};

constexpr bool is_file(Setting::Source source) {
  return source >= Setting::Source::lock_table;
}

// A setting has an invalid value, whatever the other settings are.
class BadValue : public UsageError {
 public:
  BadValue(const Setting& setting, const std::string& message)
      : UsageError(setting.origin + ": " + message, is_file(setting.source)) {}
};

// A setting has no effect without another one, which may still come from elsewhere.
class NeedsAnother : public UsageError {
 public:
  using UsageError::UsageError;
};

// Settings by the long option's name, only those that were set. Flags are "true" or
// "false". "password" and "sentinel-password" are included though they are not options:
// only the environment can set them.
using Settings = std::map<std::string, Setting, std::less<>>;

// Calls `use` with the setting `name` if it is set. If `use` throws, adds the setting's
// origin to the message.
template <typename Use>
void with_setting(const Settings& settings, std::string_view name, Use use) {
  const auto found = settings.find(name);
  if (found == settings.end()) return;
  const auto& setting = found->second;
  try {
    use(setting);
  } catch (const UsageError& error) {
    throw BadValue(setting, error.what());
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), setting.origin + ": " + failure.what());
  }
}

// A variable of this process; empty if it is not set.
std::string environment(std::string_view name);

// The value of a flag; false if it was not set.
bool flag(const Settings& settings, std::string_view name);

// Whether it was set by a configuration file.
bool is_from_file(const Settings& settings, std::string_view name);

// Two options that cannot be combined if both are set to something.
struct Exclusion {
  // Then the one with lower precedence is ignored, and it is an error if both have the
  // same; or it is always an error; or both count if both have the same.
  enum class Rule { ranked, refused, ranked_or_both };
  std::string_view one;
  std::string_view other;
  Rule rule = Rule::ranked;
  bool counts_default = false;   // even if one of them is set to its default
  std::string_view advice = {};  // what to write instead
};

// The settings without those that these exclusions let be ignored. They are checked in
// their order. Throws UsageError.
Settings in_force(Settings settings, std::span<const Exclusion> exclusions);

// The options of the command line by their long names; "true" for flags.
using OptionValues = std::map<std::string, std::string, std::less<>>;

// The configuration file that `options` or the environment name, or the first default
// file that exists, if there is one. The whole file is validated. Throws UsageError, and
// Failure for a file that cannot be used.
struct FoundConfig {
  std::optional<Config> config;
  bool is_named = false;
};
FoundConfig found_config(const OptionValues& options);

// The settings for `verb` from the options, the environment and the file, in order of
// precedence. In the file, which may be null, the table of the lock precedes the verb's.
// `lock` is empty if there is none.
Settings settings_from(const OptionValues& options, Verb verb, const std::string& lock,
                       const Config* config);

// Validates every key and value of every table of the file, whatever verb or lock it is
// for, so that a mistake is found at once and not during a nightly run. Throws UsageError
// or Failure, both with file and line.
void check(const Config& config);

// Validates one setting, common or of `verb`, with the rules that apply when the verb
// runs. Throws BadValue, and Failure for an invalid store URL.
void check_value(const VerbSpec& verb, const std::string& name, const Setting& setting);

// The settings that a nested dlock needs: see Invocation::passed_on.
std::vector<std::string> passed_on(const Settings& settings);

}  // namespace dlock
