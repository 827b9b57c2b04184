#include "cli/args/app.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "cli/args/config_check.hpp"
#include "cli/args/help.hpp"
#include "cli/args/option_values.hpp"
#include "cli/args/sources.hpp"
#include "cli/args/usage_hint.hpp"
#include "cli/args/value_check.hpp"
#include "cli/args/verb_spec.hpp"
#include "cli/args/version.hpp"
#include "cli/args/words.hpp"
#include "store/url_advice.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view help_names[] = {"help", "h", "version"};

std::optional<bool> takes_value(const VerbSpec& verb, std::string_view name) {
  if (const auto* spec = option_named(verb, name)) return !spec->value.empty();
  const bool help = std::find(std::begin(help_names), std::end(help_names), name) !=
                    std::end(help_names);
  return help ? std::optional(false) : std::nullopt;
}

// The index of the verb, which is the first word that is not an option; options before it
// are common ones. -1 if there is none.
std::ptrdiff_t verb_position(const std::vector<std::string>& args,
                             const VerbSpec& common) {
  const auto words = sorted_words(
      args, 0, [&](std::string_view name) { return takes_value(common, name); });
  if (words.command.empty()) return -1;
  return static_cast<std::ptrdiff_t>(args.size() - words.command.size());
}

bool takes_command(Verb verb) {
  return verb == Verb::run || verb == Verb::limit || verb == Verb::cache;
}

std::string missing_operand(Verb verb, std::size_t given) {
  if (verb == Verb::fence) {
    return given == 0 ? "missing resource name" : "missing fence";
  }
  if (verb == Verb::cache) return "missing key";
  if (verb != Verb::limit) return "missing lock name";
  return given == 0 ? "missing limit name" : "missing rate, such as 5/1s";
}

bool is_rate(const std::string& word) {
  try {
    parsed_rate(word);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

// Whether the words after a `--` that stands before all operands are only a command, so
// that the first of them is no name: something is missing behind them.
bool lacks_name(const VerbSpec& verb, const Words& words, const OptionValues& options) {
  if (!words.starts_with_dashes || !takes_command(verb.verb)) return false;
  if (verb.verb == Verb::limit) {
    return words.operands.size() < 2 || !is_rate(words.operands.back());
  }
  const bool runs = options.count("show") == 0 && options.count("forget") == 0;
  return words.command.empty() && runs;
}

// Checked before a missing word is reported, because an option may have taken the word as
// its value.
void check_values(const OptionValues& options, const VerbSpec& verb) {
  for (const auto& [name, value] : options) {
    check_value(verb, name, {value, Setting::Source::command_line, "--" + name});
  }
}

// Throws if operands are missing or unexpected. `hint` suggests what the last words were
// meant for.
void check_operands(const VerbSpec& verb, const Words& words, const OptionValues& options,
                    const std::string& hint) {
  const auto usage = " (usage: dlock " + std::string(verb.usage) + ")";
  const bool wants_command =
      verb.verb == Verb::run || (verb.verb == Verb::limit && words.announces_command);
  const bool lacks_command = wants_command && words.command.empty();
  if (!words.operands.empty() && lacks_name(verb, words, options)) {
    check_values(options, verb);
    throw UsageError(missing_operand(verb.verb, 0) + " before '-- " +
                     printable(words.operands.front(), 60) + "'" + usage);
  }
  if (words.operands.size() < verb.least_operands || lacks_command) {
    check_values(options, verb);
    throw UsageError((words.operands.size() < verb.least_operands
                          ? missing_operand(verb.verb, words.operands.size())
                          : "missing command") +
                     usage);
  }
  if (!takes_command(verb.verb) && !words.command.empty()) {
    throw UsageError("unexpected argument '" + shown_word(words.command.front()) + "'" +
                     (hint.empty() ? usage : ": " + hint));
  }
}

// The lock that the verb acts on; empty if there is none.
std::string lock_of(Verb verb, const std::vector<std::string>& operands) {
  if (verb == Verb::check && operands.empty()) {
    const char* name = std::getenv("DLOCK_NAME");
    return name == nullptr ? "" : name;
  }
  if (operands.empty()) return "";
  const auto name = verb == Verb::cache ? "cache:" + operands.front() : operands.front();
  return is_about_lock(verb, name) ? name : "";
}

// Removes the verb from `args` and returns it; null if there is none.
const VerbSpec* take_verb(std::vector<std::string>& args) {
  // Only common options can precede the verb; `status` has no others.
  const auto at = verb_position(args, *verb_named("status"));
  if (at < 0) return nullptr;
  const auto* verb = verb_named(args[static_cast<std::size_t>(at)]);
  if (verb == nullptr) throw UsageError(unknown_verb(args[static_cast<std::size_t>(at)]));
  args.erase(args.begin() + at);
  return verb;
}

// The output of `dlock help`, with or without the name of a verb.
std::string help_about(const std::vector<std::string>& operands) {
  if (operands.empty()) return general_help(all_verbs());
  const auto& name = operands.front();
  const auto* verb = verb_named(name);
  if (verb != nullptr) return help_of(*verb, common_specs());
  const auto meant = did_you_mean(name, verb_names());
  throw UsageError("unknown verb '" + shown_word(name) + "'" +
                   (meant.empty() ? " (see dlock --help)" : meant));
}

Invocation invocation_of(const VerbSpec& verb, const Words& words,
                         const OptionValues& options) {
  Invocation invocation;
  invocation.verb = verb.verb;
  invocation.operands = words.operands;
  invocation.command = words.command;
  const auto found = found_config(options);
  if (found.is_named) invocation.config = found.config.path;
  invocation.settings =
      settings_from(options, verb, lock_of(verb.verb, words.operands), found.config);
  invocation.common = common_options(invocation.settings);
  if (verb.verb != Verb::config) {
    refuse_useless_options(invocation.settings, invocation.common.store);
  }
  invocation.passed_on = passed_on(invocation.settings);
  invocation.warnings = unknown_variables(environ);
  for (auto& warning : exposed_secrets(invocation.common, invocation.settings)) {
    invocation.warnings.push_back(std::move(warning));
  }
  return invocation;
}

}  // namespace

std::variant<Invocation, Print> parsed(const std::vector<std::string>& args) {
  auto rest = args;
  const auto* named = take_verb(rest);
  const auto& verb = named == nullptr ? *verb_named("status") : *named;

  const auto words =
      sorted_words(rest, named == nullptr ? 0 : verb.most_operands,
                   [&](std::string_view name) { return takes_value(verb, name); });
  if (!words.unknown.empty()) throw UsageError(unknown_option(words.unknown, named));
  const auto taken = option_values(verb, words.options);
  if (const auto* asked = std::get_if<Asked>(&taken)) {
    if (*asked == Asked::version)
      return Print{"dlock " + std::string(program_version) + "\n"};
    return Print{named == nullptr ? general_help(all_verbs())
                                  : help_of(verb, common_specs())};
  }
  if (named == nullptr) throw UsageError("missing verb (see dlock --help)");
  const auto& options = std::get<OptionValues>(taken);
  const auto hint =
      words.operands.empty() ? "" : split_value(rest, words.first_operand, verb);
  check_operands(verb, words, options, hint);
  if (verb.verb == Verb::help) return Print{help_about(words.operands)};

  if (hint.empty()) return invocation_of(verb, words, options);
  const auto taken_as_name =
      "'" + words.operands.front() + "' is taken as the lock name; " + hint;
  // Without a `--` behind it, the next word was probably meant as the name.
  if (!words.command.empty() && !words.announces_command) throw UsageError(taken_as_name);
  auto invocation = invocation_of(verb, words, options);
  invocation.warnings.push_back(taken_as_name);
  return invocation;
}

}  // namespace dlock
