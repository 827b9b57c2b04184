#include "cli/app.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/config_file.hpp"
#include "cli/help.hpp"
#include "cli/verb_spec.hpp"
#include "cli/words.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

constexpr OptionSpec common_specs[] = {
    {"store", 0, "URL", "DLOCK_STORE", "local:, local:/dir, redis://host, ..., none:"},
    {"namespace", 0, "NS", "DLOCK_NAMESPACE", "prefix of every name (default dlock)"},
    {"config", 0, "FILE", "DLOCK_CONFIG", "TOML file of settings"},
    {"store-timeout", 0, "D", "DLOCK_STORE_TIMEOUT", "budget of one operation (2s)"},
    {"user", 0, "NAME", "DLOCK_USER", "log in to the store as NAME"},
    {"password-file", 0, "FILE", "DLOCK_PASSWORD_FILE", "log in with the password in it"},
    {"tls-ca", 0, "FILE", "DLOCK_TLS_CA", "trust these, not the system's"},
    {"tls-cert", 0, "FILE", "DLOCK_TLS_CERT", "our certificate"},
    {"tls-key", 0, "FILE", "DLOCK_TLS_KEY", "its key"},
    {"tls-insecure", 0, "", "DLOCK_TLS_INSECURE", "accept any certificate"},
    {"json", 0, "", "", "print one JSON document"},
    {"quiet", 'q', "", "", "errors only"},
    {"verbose", 'v', "", "", "one line for each step"},
    {"color", 0, "WHEN", "", "auto, always or never"},
};

// Of these the command hears, for a dlock inside it.
constexpr std::string_view passed_on_names[] = {
    "user", "password-file", "tls-ca", "tls-cert", "tls-key", "tls-insecure"};

constexpr OptionSpec run_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s); local: needs none"},
    {"slots", 'n', "N", "", "how many may hold it at a time (1)"},
    {"shared", 's', "", "", "share it with other shared holders"},
    {"conflict-exit-code", 'E', "N", "", "exit code if not obtained (75)"},
    {"dedupe", 0, "WINDOW", "", "skip it if it ran less than that ago"},
    {"retry-failed", 0, "", "", "but not if that run failed"},
    {"min-hold", 0, "D", "", "keep the lock at least for D"},
    {"timeout", 0, "D", "", "end the command after D, exit 124"},
    {"kill-after", 'k', "D", "", "from SIGTERM to SIGKILL (5s)"},
    {"jitter", 0, "D", "", "first sleep a random time up to D"},
    {"on-outage", 0, "WHAT", "", "without the store: stop (default) or run"},
    {"reclaim", 0, "", "", "set up again a lease that the store forgot"},
    {"lock-delay", 0, "D", "", "the store keeps the lease longer by D"},
    {"stragglers", 0, "WHAT", "", "leave, wait for or kill what is left"},
    {"label", 0, "TEXT", "", "shown by status"},
    {"report", 0, "FILE", "", "write the outcome there as JSON"},
};

constexpr OptionSpec acquire_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s)"},
    {"slots", 'n', "N", "", "how many may hold it at a time (1)"},
    {"shared", 's', "", "", "share it with other shared holders"},
    {"label", 0, "TEXT", "", "shown by status"},
    {"for-pid", 0, "PID", "", "keep it for as long as PID lives"},
};

constexpr OptionSpec renew_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "what acquire has printed"},
    {"token-file", 0, "FILE", "", "the token is in it"},
    {"ttl", 't', "D", "", "from now on (30s)"},
};

constexpr OptionSpec release_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "what acquire has printed"},
    {"token-file", 0, "FILE", "", "the token is in it"},
};

constexpr OptionSpec check_specs[] = {
    {"fence", 0, "N", "DLOCK_FENCE", "of the grant in question"},
    {"min-validity", 0, "D", "", "it has to last that long (0)"},
};

constexpr OptionSpec break_specs[] = {
    {"fence", 0, "N", "", "only the holder with this fence"},
    {"yes", 0, "", "", "do not ask first"},
};

constexpr OptionSpec cache_specs[] = {
    {"ttl", 0, "D", "", "how long the output is good (5m)"},
    {"stale", 0, "D", "", "then serve it so long while one refreshes it"},
    {"max-size", 0, "SIZE", "", "what is larger is not stored (16MiB)"},
    {"wait", 'w', "D", "", "for one who computes; forever if not set"},
    {"conflict-exit-code", 'E', "N", "", "exit code if that takes longer (75)"},
    {"forget", 0, "", "", "drop what is stored, run nothing"},
};

constexpr OptionSpec limit_specs[] = {
    {"wait", 'w', "D", "", "wait up to D for a turn, or forever"},
};

constexpr OptionSpec list_specs[] = {
    {"live", 0, "", "", "show it until interrupted, up to date"},
    {"prometheus", 0, "", "", "print metrics for Prometheus"},
};

constexpr OptionSpec history_specs[] = {
    {"limit", 0, "N", "", "the last N at most (20)"},
};

constexpr std::size_t most_names = 10'000;  // that `watch` takes

constexpr VerbSpec verbs[] = {
    {Verb::run, VerbGroup::run, "run", "run [OPTIONS] NAME [--] COMMAND [ARG...]",
     "hold a lock while a command runs", 1, 1, std::begin(run_specs),
     std::end(run_specs)},
    {Verb::acquire, VerbGroup::by_hand, "acquire", "acquire [OPTIONS] NAME",
     "take a lock and print the token that it is held by", 1, 1,
     std::begin(acquire_specs), std::end(acquire_specs)},
    {Verb::renew, VerbGroup::by_hand, "renew", "renew [OPTIONS] NAME",
     "make a lock that was taken last longer", 1, 1, std::begin(renew_specs),
     std::end(renew_specs)},
    {Verb::release, VerbGroup::by_hand, "release", "release [OPTIONS] NAME",
     "give a lock back", 1, 1, std::begin(release_specs), std::end(release_specs)},
    {Verb::check, VerbGroup::by_hand, "check", "check [OPTIONS] [NAME]",
     "ask whether a lock is still held by this grant", 0, 1, std::begin(check_specs),
     std::end(check_specs)},
    {Verb::fence, VerbGroup::by_hand, "fence", "fence [OPTIONS] RESOURCE N",
     "admit a fence unless a greater one was admitted", 2, 2, nullptr, nullptr},
    {Verb::status, VerbGroup::look, "status", "status [OPTIONS] NAME",
     "show who holds a lock, who waits, the last run", 1, 1, nullptr, nullptr},
    {Verb::list, VerbGroup::look, "list", "list [OPTIONS] [PATTERN]",
     "show every lock that is held, awaited or has run", 0, 1, std::begin(list_specs),
     std::end(list_specs)},
    {Verb::watch, VerbGroup::look, "watch", "watch [OPTIONS] [NAME...]",
     "show what happens to locks, as it happens", 0, most_names, nullptr, nullptr},
    {Verb::history, VerbGroup::look, "history", "history [OPTIONS] NAME",
     "show the last runs of a lock", 1, 1, std::begin(history_specs),
     std::end(history_specs)},
    {Verb::break_lock, VerbGroup::operate, "break", "break [OPTIONS] NAME",
     "take a lock from its holders, whose commands end", 1, 1, std::begin(break_specs),
     std::end(break_specs)},
    {Verb::doctor, VerbGroup::operate, "doctor", "doctor [OPTIONS]",
     "examine the store, and say what to do", 0, 0, nullptr, nullptr},
    {Verb::limit, VerbGroup::rate_and_cache, "limit",
     "limit [OPTIONS] NAME N/PERIOD [--] [COMMAND [ARG...]]",
     "admit N at most in any PERIOD", 2, 2, std::begin(limit_specs),
     std::end(limit_specs)},
    {Verb::cache, VerbGroup::rate_and_cache, "cache",
     "cache [OPTIONS] KEY [--] [COMMAND [ARG...]]",
     "print a command's output, running it only if needed", 1, 1, std::begin(cache_specs),
     std::end(cache_specs)},
};

// What options were set to, by name.
using OptionValues = std::map<std::string, std::string, std::less<>>;

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

// The option of `verb` with this long name or letter; null if it has none.
const OptionSpec* option_named(const VerbSpec& verb, std::string_view name) {
  const auto is_named = [&](const OptionSpec& spec) {
    return name.size() == 1 ? spec.letter == name.front() : spec.name == name;
  };
  const auto* own = std::find_if(verb.first, verb.last, is_named);
  if (own != verb.last) return own;
  const auto* common =
      std::find_if(std::begin(common_specs), std::end(common_specs), is_named);
  return common == std::end(common_specs) ? nullptr : common;
}

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

const VerbSpec* verb_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(verbs), std::end(verbs),
                                   [&](const VerbSpec& v) { return v.name == name; });
  return found == std::end(verbs) ? nullptr : found;
}

// What was probably meant, as the end of a message; `otherwise` if that is not clear.
std::string suggestion(std::string_view mistyped,
                       const std::vector<std::string_view>& words,
                       std::string_view dashes = "", std::string_view otherwise = "") {
  const auto meant = nearest(mistyped, words);
  if (!meant) return std::string(otherwise);
  return ": did you mean '" + std::string(dashes) + std::string(*meant) + "'?";
}

std::vector<std::string_view> names_of(const OptionSpec* first, const OptionSpec* last) {
  std::vector<std::string_view> names;
  std::for_each(first, last, [&](const auto& spec) { names.push_back(spec.name); });
  return names;
}

std::vector<std::string_view> verb_names() {
  std::vector<std::string_view> names;
  for (const auto& verb : verbs) names.push_back(verb.name);
  return names;
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

std::string environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0),
                                                         &std::free);
  return here ? std::string(here.get()) + "/" + path : path;
}

// What a value means wherever it is from: `directory` is what a relative path counts
// from, the working directory if it is empty.
std::string settled(const OptionSpec& spec, const std::string& value,
                    const std::string& directory = "") {
  if (spec.value != "FILE" || value.empty() || value.front() == '/') return value;
  return absolute(directory + value);
}

// The file that was named, or the first of the usual ones that exists; empty if none.
std::string config_path(const std::string& named) {
  if (!named.empty()) return named;
  auto home = environment("HOME");
  if (home.empty()) home = home_directory(::geteuid());
  auto own = home + "/.config/dlock/config.toml";
  if (!home.empty() && ::access(own.c_str(), F_OK) == 0) return own;
  constexpr const char* global = "/etc/dlock/config.toml";
  return ::access(global, F_OK) == 0 ? global : "";
}

// Adds what the file says to `settings` where nothing else has. Every key is checked,
// also those of other verbs: a misspelt one is found at once and not at night.
void add_from_file(Settings& settings, const VerbSpec& verb, const std::string& path) {
  const auto config = config_from(path);
  const auto directory = path.substr(0, path.rfind('/') + 1);
  const auto refuse = [&](const std::string& what) {
    throw Failure(Failure::Kind::misconfigured, printable(path) + ": " + what);
  };
  for (const auto& [table, keys] : config) {
    const auto* of_verb = verb_named(table);
    if (!table.empty() && of_verb == nullptr) {
      refuse("[" + printable(table) + "] is not a verb of dlock" +
             suggestion(table, verb_names()));
    }
    const auto* first = table.empty() ? std::begin(common_specs) : of_verb->first;
    const auto* last = table.empty() ? std::end(common_specs) : of_verb->last;
    for (const auto& [key, value] : keys) {
      const auto* spec = std::find_if(
          first, last, [&name = key](const OptionSpec& s) { return s.name == name; });
      const auto shown = (table.empty() ? "" : table + ".") + key;
      if (table.empty() && key == "password") {
        refuse(
            "a password is not taken from here; password-file names the file it is in");
      }
      if (spec == last || key == "config") {
        auto names = names_of(first, last);
        std::erase(names, "config");
        refuse("unknown key " + printable(shown) + suggestion(key, names));
      }
      if (!table.empty() && of_verb != &verb) continue;
      // A common file belongs to the configuration and does not depend on where dlock is
      // called from; else somebody's directory could hold the certificates to trust.
      const auto text =
          table.empty() ? settled(*spec, value.text, directory) : value.text;
      settings.try_emplace(key, Setting{text, Setting::Source::file,
                                        printable(path) + ": " + printable(shown)});
    }
  }
}

Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       std::string& config) {
  Settings settings;
  for (const auto& [name, value] : options) {
    const auto* spec = option_named(verb, name);
    const bool common = spec >= std::begin(common_specs) && spec < std::end(common_specs);
    settings[name] = {common ? settled(*spec, value) : value,
                      Setting::Source::command_line, "--" + name};
  }
  const auto add_from_environment = [&](const OptionSpec& spec) {
    if (spec.environment.empty()) return;
    auto value = environment(spec.environment);
    if (value.empty()) return;
    if (spec.value.empty() && value == "1") value = "true";
    if (spec.value.empty() && value == "0") value = "false";
    settings.try_emplace(std::string(spec.name),
                         Setting{settled(spec, value), Setting::Source::environment,
                                 std::string(spec.environment)});
  };
  std::for_each(std::begin(common_specs), std::end(common_specs), add_from_environment);
  std::for_each(verb.first, verb.last, add_from_environment);
  // No option: everybody can read those of a process.
  if (const auto password = environment("DLOCK_PASSWORD"); !password.empty()) {
    settings["password"] = {password, Setting::Source::environment, "DLOCK_PASSWORD"};
  }
  if (const auto named = settings.find("config"); named != settings.end()) {
    config = named->second.value;
    if (config.empty()) throw UsageError("--config: a file's name is missing");
  }
  if (const auto path = config_path(config); !path.empty()) {
    add_from_file(settings, verb, path);
  }
  return settings;
}

std::vector<std::string> passed_on(const Settings& settings) {
  std::vector<std::string> variables;
  for (const auto& spec : common_specs) {
    const auto found = settings.find(spec.name);
    if (found == settings.end() ||
        std::find(std::begin(passed_on_names), std::end(passed_on_names), spec.name) ==
            std::end(passed_on_names)) {
      continue;
    }
    variables.push_back(std::string(spec.environment) + "=" + found->second.value);
  }
  return variables;
}

// Only for long options: a letter is as near to one as to any other.
std::string option_suggestion(std::string_view mistyped, const VerbSpec& verb) {
  if (!mistyped.starts_with("--")) return "";
  auto names = names_of(verb.first, verb.last);
  const auto common = names_of(std::begin(common_specs), std::end(common_specs));
  names.insert(names.end(), common.begin(), common.end());
  for (const auto name : help_names) {
    if (name.size() > 1) names.push_back(name);
  }
  return suggestion(mistyped.substr(2), names, "--");
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
      throw UsageError("unknown verb '" + printable(name, 60) + "'" +
                       suggestion(name, verb_names(), "", " (dlock --help lists them)"));
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
    return Print{no_verb ? general_help(verbs) : help_of(*verb, common_specs)};
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
