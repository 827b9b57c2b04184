#include "cli/args/app.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "cli/args/help.hpp"
#include "cli/args/linked_in.hpp"
#include "cli/args/option_table.hpp"
#include "cli/args/usage_hint.hpp"
#include "store/store_url.hpp"
#include "store/url_advice.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Adds the option in `word` to `options`. Returns whether its value is the next word.
// Returns nothing if there is no such option, or if it is a flag with a value.
std::optional<bool> add_option(const std::string& word, const TakesValue& takes_value,
                               std::vector<std::string>& options) {
  if (word.starts_with("--")) {
    const auto equals = word.find('=');
    const auto takes = takes_value(std::string_view(word).substr(0, equals).substr(2));
    if (equals == std::string::npos) {
      if (takes) options.push_back(word);
      return takes;
    }
    if (!takes.value_or(false)) return std::nullopt;
    options.push_back(word.substr(0, equals));
    options.push_back(word.substr(equals + 1));
    return false;
  }
  // Combined letters: flags, and possibly one option with a value at the end.
  bool takes_one = false;
  auto letter = word.begin() + 1;
  while (!takes_one && letter != word.end()) {
    const auto takes = takes_value(std::string_view(&*letter++, 1));
    if (!takes) return std::nullopt;
    takes_one = *takes;
  }
  options.push_back(word);
  return takes_one && letter == word.end();
}

void add(CLI::App& app, const OptionSpec& option) {
  std::string names = "--" + std::string(option.name);
  if (option.letter != 0) names = std::string("-") + option.letter + "," + names;
  if (option.is_flag()) {
    app.add_flag(names);
  } else {
    app.add_option(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

// CLI11 compares each added option with all earlier ones, which takes a twentieth of a
// run's time for the options of a verb. Only those are added that words may name.
void add_named(CLI::App& app, Verb verb, const std::vector<std::string>& words) {
  std::set<const OptionSpec*> named;
  for (const std::string_view word : words) {
    if (word.starts_with("--")) {
      named.insert(option_named(verb, word.substr(2, word.find('=') - 2)));
    } else if (word.starts_with('-')) {
      for (const auto& c : word) named.insert(option_named(verb, {&c, 1}));
    }
  }
  named.erase(nullptr);
  for (const auto* option : named) add(app, *option);
}

std::string joined(const std::vector<std::string>& values, char separator) {
  auto all = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) all += separator + values[i];
  return all;
}

// Only the last option can lack its value. Among letters in one word, only the last
// letter takes a value.
std::string missing_value(const std::string& option) {
  const bool is_long = option.starts_with("--");
  return (is_long ? printable(option, 60) : std::string("-") + option.back()) +
         " needs a value";
}

// CLI11's error message, without line breaks.
std::string explained(const CLI::ParseError& error) {
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  return printable(text, 200);
}

constexpr std::string_view help_names[] = {"help", "h", "version"};

std::optional<bool> takes_value(Verb verb, std::string_view name) {
  if (const auto* option = option_named(verb, name)) return !option->is_flag();
  const bool is_help = std::ranges::count(help_names, name) > 0;
  return is_help ? std::optional(false) : std::nullopt;
}

// It has only common options, like a command line without a verb.
constexpr auto no_verb = Verb::help;

// The index of the verb, which is the first word that is not an option; options before it
// are common ones. -1 if there is none.
std::ptrdiff_t verb_position(const std::vector<std::string>& args) {
  const auto words = sorted_words(
      args, 0, [&](std::string_view name) { return takes_value(no_verb, name); });
  if (words.command.empty()) return -1;
  return static_cast<std::ptrdiff_t>(args.size() - words.command.size());
}

std::string missing_operand(const VerbSpec& verb, std::size_t given) {
  return "missing " + std::string(verb.operands[given]);
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
  if (!words.starts_with_dashes || !verb.takes_command()) return false;
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
    throw UsageError(missing_operand(verb, 0) + " before '-- " +
                     printable(words.operands.front(), 60) + "'" + usage);
  }
  if (words.operands.size() < verb.least_operands || lacks_command) {
    check_values(options, verb);
    throw UsageError((words.operands.size() < verb.least_operands
                          ? missing_operand(verb, words.operands.size())
                          : "missing command") +
                     usage);
  }
  if (!verb.takes_command() && !words.command.empty()) {
    throw UsageError("unexpected argument '" + shown_word(words.command.front()) + "'" +
                     (hint.empty() ? usage : ": " + hint));
  }
}

// The lock that the verb acts on; empty if there is none.
std::string lock_of(const VerbSpec& verb, const std::vector<std::string>& operands) {
  if (verb.verb == Verb::check && operands.empty()) return environment("DLOCK_NAME");
  // With several names, no table of one of them applies.
  if (operands.size() != 1) return "";
  const auto name =
      verb.verb == Verb::cache ? "cache:" + operands.front() : operands.front();
  return is_about_lock(verb, name) ? name : "";
}

// Removes the verb from `args` and returns it; null if there is none.
const VerbSpec* take_verb(std::vector<std::string>& args) {
  const auto at = verb_position(args);
  if (at < 0) return nullptr;
  const auto* verb = verb_named(args[static_cast<std::size_t>(at)]);
  if (verb == nullptr) throw UsageError(unknown_verb(args[static_cast<std::size_t>(at)]));
  args.erase(args.begin() + at);
  return verb;
}

// The output of `dlock help`, with or without an operand: the name of a verb, or
// `options`.
std::string help_about(const std::vector<std::string>& operands) {
  if (operands.empty()) return general_help();
  const auto& name = operands.front();
  if (name == "options") return help_of_options();
  const auto* verb = verb_named(name);
  if (verb != nullptr) return help_of(*verb);
  auto known = verb_names();
  known.push_back("options");
  const auto meant = did_you_mean(name, known);
  throw UsageError("unknown verb '" + shown_word(name) + "'" +
                   (meant.empty() ? " (see dlock --help)" : meant));
}

std::vector<std::string> unknown_variables() {
  constexpr std::string_view ours = "DLOCK_";
  std::vector<std::string> warnings;
  for (auto* variable = environ; *variable != nullptr; ++variable) {
    std::string_view entry(*variable);
    if (!entry.starts_with(ours)) continue;
    entry.remove_prefix(ours.size());
    auto warning = unknown_variable(entry.substr(0, entry.find('=')));
    if (!warning.empty()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

// DLOCK_HOST is recorded, and passed to hooks of others.
void check_host(const std::string& host) {
  constexpr std::size_t longest = 255;
  const bool has_form = are_alphanumeric_or(host, "-._:");
  if (has_form && host.size() <= longest && !host.starts_with('-')) return;
  throw UsageError(
      "DLOCK_HOST: not a host name: at most 255 letters, digits and -._: are allowed, "
      "and no - at its begin");
}

Invocation invocation_of(const VerbSpec& verb, const Words& words,
                         const OptionValues& options) {
  Invocation invocation;
  invocation.verb = &verb;
  invocation.operands = words.operands;
  invocation.command = words.command;
  check_host(environment("DLOCK_HOST"));
  const auto found = found_config(options);
  if (found.is_named) invocation.config = found.config->path;
  invocation.settings = settings_from(options, verb.verb, lock_of(verb, words.operands),
                                      found.config ? &*found.config : nullptr);
  invocation.common = common_options(invocation.settings);
  if (verb.verb != Verb::config) {
    refuse_useless_options(invocation.settings, invocation.common.store);
  }
  invocation.passed_on = passed_on(invocation.settings);
  invocation.warnings = unknown_variables();
  if (const auto& ignored = invocation.common.store.ignored; !ignored.empty()) {
    invocation.warnings.push_back(
        "warning: the store URL has parameters that are not for dlock, and are "
        "ignored: " +
        joined(ignored, ' '));
  }
  for (auto& warning : exposed_secrets(invocation.common, invocation.settings)) {
    invocation.warnings.push_back(std::move(warning));
  }
  return invocation;
}

}  // namespace

Words sorted_words(const std::vector<std::string>& args, std::size_t most_operands,
                   const TakesValue& takes_value) {
  Words words;
  bool options_ended = false;
  for (auto word = args.begin(); word != args.end(); ++word) {
    const bool operands_full = words.operands.size() == most_operands;
    if (*word == "--" && (!options_ended || operands_full)) {
      if (operands_full) {
        words.announces_command = true;
        words.command.assign(word + 1, args.end());
        return words;
      }
      options_ended = true;
      words.starts_with_dashes = words.operands.empty();
    } else if (!options_ended && word->size() > 1 && word->front() == '-') {
      const auto value_follows = add_option(*word, takes_value, words.options);
      if (!value_follows) {
        words.unknown = *word;
        return words;
      }
      // If it is missing, the parser reports that.
      if (*value_follows && word + 1 != args.end()) words.options.push_back(*++word);
    } else if (operands_full) {
      words.command.assign(word, args.end());
      return words;
    } else {
      if (words.operands.empty()) {
        words.first_operand = static_cast<std::size_t>(word - args.begin());
      }
      words.operands.push_back(*word);
    }
  }
  return words;
}

std::variant<OptionValues, Asked> option_values(Verb verb,
                                                const std::vector<std::string>& options) {
  // Most runs have no options.
  if (options.empty()) return OptionValues();
  CLI::App app;  // which has -h,--help
  app.set_version_flag("--version", program_version);
  add_named(app, verb, options);
  std::vector<std::string> reversed(options.rbegin(), options.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Asked::help;
  } catch (const CLI::CallForVersion&) {
    return Asked::version;
  } catch (const CLI::ArgumentMismatch&) {
    throw UsageError(missing_value(options.back()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(explained(error));
  }
  OptionValues values;
  for (const auto* option : app.parse_order()) {
    const auto name = option->get_single_name();
    const auto* spec = option_named(verb, name);
    const auto separator = spec == nullptr ? std::nullopt : spec->separator;
    values[name] =
        separator ? joined(option->results(), *separator) : option->results().back();
    // The last one of these two counts.
    if (name == "quiet") values.erase("verbose");
    if (name == "verbose") values.erase("quiet");
  }
  return values;
}

std::variant<Invocation, Print> parsed(const std::vector<std::string>& args) {
  auto rest = args;
  const auto* named = take_verb(rest);
  const auto& verb = named == nullptr ? *verb_named("help") : *named;

  const auto words =
      sorted_words(rest, named == nullptr ? 0 : verb.most_operands,
                   [&](std::string_view name) { return takes_value(verb.verb, name); });
  if (!words.unknown.empty()) throw UsageError(unknown_option(words.unknown, named));
  const auto taken = option_values(verb.verb, words.options);
  if (const auto* asked = std::get_if<Asked>(&taken)) {
    if (*asked == Asked::version) {
      const bool is_verbose = std::ranges::count(words.options, "-v") > 0 ||
                              std::ranges::count(words.options, "--verbose") > 0;
      return Print{"dlock " + std::string(program_version) + "\n" +
                   (is_verbose ? linked_in() : "")};
    }
    return Print{named == nullptr ? general_help() : help_of(verb)};
  }
  if (named == nullptr) throw UsageError("missing verb (see dlock --help)");
  const auto& options = std::get<OptionValues>(taken);
  const bool may_be_unit =
      !words.operands.empty() && !unit_meant_by(words.operands.front()).empty();
  const auto hint = may_be_unit ? split_value(rest, words.first_operand, verb) : "";
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
