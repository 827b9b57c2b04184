// The options of the command line: one row has everything about an option.
#pragma once

#include <optional>
#include <ranges>
#include <span>
#include <string_view>

#include "cli/args/settings.hpp"
#include "cli/args/verb_table.hpp"

namespace dlock {

// What options are parsed into: those of each verb, and the common ones (options.hpp).
struct VerbOptions {};

struct OptionSpec {
  std::string_view name;         // long, without dashes
  char letter;                   // 0 if none
  std::string_view value;        // placeholder of its value, for help; empty for a flag
  std::string_view environment;  // variable that sets it, or empty
  VerbSet verbs;                 // that take it; every verb: a common option
  std::string_view usual;  // the default as users would write it; empty if there is none
  std::string_view help;   // '%' stands for the default

  // Parses a value into the options of a verb that takes it. Throws UsageError, and
  // Failure for an invalid store URL.
  void (*take)(VerbOptions& options, const Setting& setting);

  // Of an option that can be repeated: what separates its values in the setting.
  std::optional<char> separator = std::nullopt;

  bool is_flag() const { return value.empty(); }
};

// The options of every verb, those that only some verbs take, and those of one verb, in
// the order of --help.
std::span<const OptionSpec> common_specs();
std::span<const OptionSpec> own_specs();
inline auto own_specs(Verb verb) {
  return own_specs() | std::views::filter([verb](const OptionSpec& option) {
           return (option.verbs & of(verb)) != 0;
         });
}

// The option with this long name; null if there is none.
const OptionSpec* common_option(std::string_view name);
const OptionSpec* own_option(Verb verb, std::string_view name);
const OptionSpec* any_option(std::string_view name);  // the first of several

// An option of `verb`, its own or a common one, by its long name or its letter.
const OptionSpec* option_named(Verb verb, std::string_view name);

// The common options that exclude each other, and all others, in the order in which they
// are checked.
std::span<const Exclusion> common_exclusions();
std::span<const Exclusion> own_exclusions();

// Parses these settings, and the defaults of the others, into the options of the verb or
// into the common ones. Throws as OptionSpec::take, with the origin of the setting.
void take_own(Verb verb, const Settings& settings, VerbOptions& options);
void take_common(const Settings& settings, VerbOptions& options);

}  // namespace dlock
