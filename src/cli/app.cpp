#include "cli/app.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/help.hpp"
#include "cli/sources.hpp"
#include "cli/verb_spec.hpp"
#include "cli/words.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

void add(CLI::App& app, const OptionSpec& spec, std::string& value) {
  std::string names = "--" + std::string(spec.name);
  if (spec.letter != 0) names = std::string("-") + spec.letter + "," + names;
  if (spec.value.empty()) {
    app.add_flag(names);
  } else {
    app.add_option(names, value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

constexpr std::string_view help_names[] = {"help", "h", "version"};

std::optional<bool> takes_value(const VerbSpec& verb, std::string_view name) {
  if (const auto* spec = option_named(verb, name)) return !spec->value.empty();
  const bool help = std::find(std::begin(help_names), std::end(help_names), name) !=
                    std::end(help_names);
  return help ? std::optional(false) : std::nullopt;
}

// CLI11's parser for options of one verb. What they are set to is of no interest.
struct Parser {
  Parser() {
    app.set_help_flag("-h,--help");
    app.set_version_flag("--version", "dlock " DLOCK_VERSION);
  }

  void add_option(const OptionSpec& spec) {
    const auto [value, is_new] = values.try_emplace(std::string(spec.name));
    if (is_new) add(app, spec, value->second);
  }

  // Only those that occur in `words`: nothing is said of the others.
  void add_options_of(const VerbSpec& verb, const Words& words) {
    for (const auto& word : words.options) {
      if (word.size() < 2 || word.front() != '-') continue;
      const auto name = word.substr(word.starts_with("--") ? 2 : 1);
      const auto* spec = option_named(verb, name.substr(0, name.find('=')));
      if (spec != nullptr) add_option(*spec);
    }
  }

  CLI::App app;
  OptionValues values;
};

// Where the verb stands: the first word that is no option. The options before it are
// common ones; -1 if there is none.
std::ptrdiff_t verb_position(const std::vector<std::string>& args,
                             const VerbSpec& common) {
  const auto words = sorted_words(
      args, 0, [&](std::string_view name) { return takes_value(common, name); });
  if (words.command.empty()) return -1;
  return static_cast<std::ptrdiff_t>(args.size() - words.command.size());
}

// Only for long options: a letter is as near to one as to any other.
std::string option_suggestion(std::string_view mistyped, const VerbSpec& verb) {
  if (!mistyped.starts_with("--")) return "";
  auto names = names_of(verb.own());
  const auto common = names_of(common_specs());
  names.insert(names.end(), common.begin(), common.end());
  for (const auto name : help_names) {
    if (name.size() > 1) names.push_back(name);
  }
  return did_you_mean(mistyped.substr(2), names, "--");
}

std::string explained(const std::string& unknown, const VerbSpec& verb) {
  // Not what is behind the sign: it may be somebody's idea of giving a password.
  const auto name = std::string_view(unknown).substr(0, unknown.find('='));
  const auto shown = "'" + printable(name, 60) + "'";
  if (name == "--password") {
    return shown +
           " is no option, for everybody could read it: --password-file names "
           "a file, and DLOCK_PASSWORD can have it";
  }
  const bool flag = name.starts_with("--") && takes_value(verb, name.substr(2));
  if (flag) return shown + ": that option takes no value";
  return "unknown option " + shown + option_suggestion(name, verb);
}

// Of words that all are options of `verb` and their values, as sorted_words() leaves
// them; nothing if there is more to be said of them.
std::optional<OptionValues> plain_values(const VerbSpec& verb, const Words& words) {
  OptionValues values;
  const auto end = words.options.end();
  for (auto word = words.options.begin(); word != end; ++word) {
    const bool is_long = word->starts_with("--");
    const auto name = std::string_view(*word).substr(is_long ? 2 : 1);
    const auto* spec = is_long == (name.size() > 1) ? option_named(verb, name) : nullptr;
    if (spec == nullptr) return std::nullopt;
    const bool is_flag = spec->value.empty();
    if (!is_flag && ++word == end) return std::nullopt;
    values[std::string(spec->name)] = is_flag ? "true" : *word;
  }
  return values;
}

// What CLI11 throws, for help as for errors. It is asked for nothing else: to set it up,
// with the locale that it trims names by, takes a quarter of what dlock itself executes.
[[noreturn]] void throw_what_is_wrong(const VerbSpec& verb, const Words& words) {
  Parser parser;
  parser.add_options_of(verb, words);
  std::vector<std::string> reversed(words.options.rbegin(), words.options.rend());
  parser.app.parse(reversed);
  throw CLI::ExtrasError(words.options);  // it has found nothing
}

OptionValues option_values(const VerbSpec& verb, const Words& words) {
  auto values = plain_values(verb, words);
  if (!values) throw_what_is_wrong(verb, words);
  return std::move(*values);
}

// CLI11's words for what is wrong, without its names and line breaks.
std::string explained(const CLI::ParseError& error, const Words& words) {
  const std::string last =
      words.options.empty() ? "" : printable(words.options.back(), 60);
  const auto is = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (is(CLI::ExitCodes::ArgumentMismatch)) return last + " needs a value";
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text, 200);
}

std::string missing_operand(Verb verb, std::size_t given) {
  if (verb == Verb::fence) {
    return given == 0 ? "the name of a resource is missing" : "the fence is missing";
  }
  if (verb == Verb::cache) return "the key is missing";
  if (verb != Verb::limit) return "the name of a lock is missing";
  return given == 0 ? "the name of a limit is missing"
                    : "the rate is missing, such as 5/1s";
}

void check_operands(const VerbSpec& verb, const Words& words) {
  const auto usage = " (usage: dlock " + std::string(verb.usage) + ")";
  if (words.operands.size() < verb.least_operands) {
    throw UsageError(missing_operand(verb.verb, words.operands.size()) + usage);
  }
  if (verb.verb == Verb::run) {
    if (words.command.empty()) throw UsageError("a command is missing" + usage);
  } else if (verb.verb != Verb::limit && verb.verb != Verb::cache &&
             !words.command.empty()) {
    throw UsageError("'" + printable(words.command.front(), 60) +
                     "' is one word too many" + usage);
  }
}

}  // namespace

std::variant<Invocation, Print> parsed(const std::vector<std::string>& args) {
  const VerbSpec* verb = nullptr;
  auto rest = args;
  // Before the verb only common options can stand; `status` has no others.
  const auto* common = verb_named("status");
  if (const auto at = verb_position(args, *common); at >= 0) {
    const auto& name = args[static_cast<std::size_t>(at)];
    verb = verb_named(name);
    if (verb == nullptr) {
      const auto meant = did_you_mean(name, verb_names());
      throw UsageError("unknown verb '" + printable(name, 60) + "'" +
                       (meant.empty() ? " (dlock --help lists them)" : meant));
    }
    rest.erase(rest.begin() + at);
  }
  const bool no_verb = verb == nullptr;
  if (no_verb) verb = common;

  const auto words =
      sorted_words(rest, no_verb ? 0 : verb->most_operands,
                   [&](std::string_view name) { return takes_value(*verb, name); });
  if (!words.unknown.empty()) throw UsageError(explained(words.unknown, *verb));
  OptionValues options;
  try {
    options = option_values(*verb, words);
  } catch (const CLI::CallForHelp&) {
    return Print{no_verb ? general_help(all_verbs()) : help_of(*verb, common_specs())};
  } catch (const CLI::CallForVersion&) {
    return Print{"dlock " DLOCK_VERSION "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError(explained(error, words));
  }
  if (no_verb) throw UsageError("a verb is missing (dlock --help lists them)");
  check_operands(*verb, words);

  Invocation invocation;
  invocation.verb = verb->verb;
  invocation.operands = words.operands;
  invocation.command = words.command;
  invocation.settings = settings_from(options, *verb, invocation.config);
  invocation.common = common_options(invocation.settings);
  invocation.passed_on = passed_on(invocation.settings);
  return invocation;
}

}  // namespace dlock
