#include "cli/app.hpp"

#include <algorithm>
#include <iterator>

#include "cli/help.hpp"
#include "cli/option_values.hpp"
#include "cli/sources.hpp"
#include "cli/verb_spec.hpp"
#include "cli/words.hpp"
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
  const auto options = option_values(*verb, words.options);
  if (const auto* asked = std::get_if<Asked>(&options)) {
    if (*asked == Asked::version) return Print{"dlock " DLOCK_VERSION "\n"};
    return Print{no_verb ? general_help(all_verbs()) : help_of(*verb, common_specs())};
  }
  if (no_verb) throw UsageError("a verb is missing (dlock --help lists them)");
  check_operands(*verb, words);

  Invocation invocation;
  invocation.verb = verb->verb;
  invocation.operands = words.operands;
  invocation.command = words.command;
  invocation.settings =
      settings_from(std::get<OptionValues>(options), *verb, invocation.config);
  invocation.common = common_options(invocation.settings);
  invocation.passed_on = passed_on(invocation.settings);
  return invocation;
}

}  // namespace dlock
