#include "cli/args/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "cli/args/calendar.hpp"
#include "cli/args/option_table.hpp"
#include "cli/args/options.hpp"
#include "cli/args/usage_hint.hpp"
#include "cli/args/verb_table.hpp"
#include "util/path_trust.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

Setting setting_in(const Config& config, const std::string& shown, const std::string& key,
                   const ConfigValue& value) {
  const auto source =
      shown.starts_with("lock.") ? Setting::Source::lock_table : Setting::Source::file;
  return {value.text, source,
          printable(config.path) + ":" + std::to_string(value.line()) + ": " +
              (shown.empty() ? "" : shown + ".") + printable(key)};
}

// Settings that a nested dlock finds elsewhere, or does not need; it gets all others that
// have a variable.
constexpr std::string_view not_passed_on[] = {"store", "namespace", "config",
                                              "store-timeout", "password-command"};

// Not options, because every user can read the arguments of a process.
struct SecretVariable {
  std::string_view setting;
  const char* variable;
};
constexpr SecretVariable secret_variables[] = {
    {"password", "DLOCK_PASSWORD"}, {"sentinel-password", "DLOCK_SENTINEL_PASSWORD"}};

std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0),
                                                         &std::free);
  return here ? std::string(here.get()) + "/" + path : path;
}

// The value with relative paths made absolute: relative to `directory`, or to the working
// directory if that is empty.
std::string settled(const OptionSpec& spec, const std::string& value,
                    const std::string& directory = "") {
  if (spec.value != "FILE" || value.empty() || value.front() == '/') return value;
  return absolute(directory + value);
}

// Also a file behind a link of another user that the kernel does not follow
// (fs.protected_symlinks): to read it then says why it is refused.
bool is_there(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return true;
  if (errno != EACCES) return false;
  const auto way = way_to(path);
  return way.error == 0 && has_end(way);
}

// The named file, or the first default file that exists; empty if there is none.
std::string config_path(const std::string& named) {
  if (!named.empty()) return named;
  auto home = environment("HOME");
  if (home.empty()) home = home_directory(::geteuid());
  auto own = home + "/.config/dlock/config.toml";
  if (!home.empty() && is_there(own)) return own;
  constexpr const char* global = "/etc/dlock/config.toml";
  // A directory that this user may not look into is not an empty one: the file may be
  // there, and name the store that all hosts share.
  const bool is_hidden = ::access(global, F_OK) != 0 && errno == EACCES;
  return is_hidden || is_there(global) ? global : "";
}

// Adds the settings of a table of the file that are among these options and not set yet.
template <typename OptionOf>
void add_from_table(Settings& settings, const Config& config, const ConfigTable& table,
                    const std::string& shown, OptionOf option_of) {
  const auto directory = config.path.substr(0, config.path.rfind('/') + 1);
  for (const auto& [key, value] : table.keys) {
    const OptionSpec* option = option_of(key);
    if (option == nullptr) continue;
    auto setting = setting_in(config, shown, key, value);
    // A common file is relative to the configuration file and not to the working
    // directory; otherwise another user's directory could provide the trusted
    // certificates.
    if (shown.empty()) setting.value = settled(*option, setting.value, directory);
    settings.try_emplace(key, std::move(setting));
  }
}

void add_from_file(Settings& settings, Verb verb, const std::string& lock,
                   const Config& config) {
  const auto own = [&](const std::string& key) { return own_option(verb, key); };
  // In the table of a lock, the label is that of its runs, and not one to look for.
  const auto own_of_lock = [&](const std::string& key) {
    return verb == Verb::history && key == "label" ? nullptr : own(key);
  };
  if (const auto of_lock = config.locks.find(lock); of_lock != config.locks.end()) {
    add_from_table(settings, config, of_lock->second, shown_lock(lock), own_of_lock);
  }
  const auto of_verb = config.verbs.find(name_of(verb));
  if (of_verb != config.verbs.end()) {
    add_from_table(settings, config, of_verb->second, of_verb->first, own);
  }
  add_from_table(settings, config, config.top, "", common_option);
}

void add_from_environment(Settings& settings, const OptionSpec& option) {
  if (option.environment.empty()) return;
  auto value = environment(option.environment);
  if (value.empty()) return;
  if (option.is_flag() && value == "1") value = "true";
  if (option.is_flag() && value == "0") value = "false";
  settings.try_emplace(std::string(option.name),
                       Setting{settled(option, value), Setting::Source::environment,
                               std::string(option.environment)});
}

// Whether an option is set to something. An invalid value is nothing; it is reported when
// it is parsed.
bool is_on(std::string_view name, const std::string& value, bool counts_default) {
  const auto& option = *any_option(name);
  if (option.is_flag()) return value == "true";
  if (option.separator && value.empty()) return false;  // an empty list
  if (option.usual.empty() || is_period(value)) return true;
  try {
    // A plain number is a duration in seconds.
    const auto span = parsed_duration(value);
    return counts_default || span != parsed_duration(option.usual);
  } catch (const UsageError&) {
    return false;
  }
}

// Whether an option must not be ignored. --retry-failed on the command line refers to the
// --dedupe in the file; and without --also a command would run without one of its locks.
bool is_wanted(const Settings& settings, std::string_view name) {
  const bool retries =
      flag(settings, "retry-failed") && !is_from_file(settings, "retry-failed");
  return name == "also" || (name == "dedupe" && retries);
}

// The verb whose rules apply to an option in the table of this lock, if any does: the
// first one, unless it is a cached value.
const VerbSpec* verb_of_lock_with(std::string_view name, std::string_view key) {
  const VerbSpec* found = nullptr;
  for (const auto& verb : all_verbs()) {
    if (!is_about_lock(verb, name) || own_option(verb.verb, key) == nullptr) continue;
    if (found == nullptr || verb.lock_table == LockTable::of_values) found = &verb;
  }
  return found;
}

bool is_common_key(std::string_view key) {
  return key != "config" && common_option(key) != nullptr;
}

std::vector<std::string_view> own_names(Verb verb) {
  std::vector<std::string_view> names;
  for (const auto& option : own_specs(verb)) names.push_back(option.name);
  return names;
}

// The tables that may contain such a key: "[run], [acquire] or [lock."NAME"]".
std::string tables_of(std::string_view key) {
  std::vector<std::string> tables;
  for (const auto& verb : all_verbs()) {
    if (own_option(verb.verb, key) == nullptr) continue;
    tables.push_back("[" + std::string(verb.name()) + "]");
  }
  if (verb_of_lock_with("", key) != nullptr) {
    tables.emplace_back("[lock.\"NAME\"]");
  } else if (verb_of_lock_with("cache:", key) != nullptr) {
    tables.emplace_back("[lock.\"cache:KEY\"]");
  }
  std::string text;
  for (const auto& table : tables) {
    if (!text.empty()) text += &table == &tables.back() ? " or " : ", ";
    text += table;
  }
  return text;
}

// A key that does not belong in this table; `shown` is "" for the top level, or "run".
Failure misplaced(const Config& config, const std::string& shown, const std::string& key,
                  const Line& line, const std::vector<std::string_view>& possible) {
  const auto here = shown.empty() ? "at the top level" : "in [" + shown + "]";
  const auto quoted = "'" + printable(key, 60) + "'";
  if (key == "password" || key == "sentinel-password") {
    return broken_line(config.path, line,
                       "a password cannot be set here; use " + key + "-file");
  }
  if (is_common_key(key)) {
    return broken_line(
        config.path, line,
        quoted + " belongs at the top level, before any table, not " + here);
  }
  if (const auto tables = tables_of(key); !tables.empty()) {
    return broken_line(config.path, line,
                       quoted + " belongs in " + tables + ", not " + here);
  }
  return broken_line(config.path, line,
                     "unknown key " + (shown.empty() ? "" : shown + ".") +
                         printable(key) + did_you_mean(key, possible));
}

// `verb_of` returns the verb whose rules apply to a key, or null if the key does not
// belong in this table.
template <typename VerbOf>
void check_table(const Config& config, const ConfigTable& table, const std::string& shown,
                 const std::vector<std::string_view>& possible, VerbOf verb_of) {
  for (const auto& [key, value] : table.keys) {
    const VerbSpec* verb = verb_of(key);
    if (verb == nullptr) throw misplaced(config, shown, key, value.line, possible);
    try {
      check_value(*verb, key, {value.text, Setting::Source::file, ""});
    } catch (const std::exception&) {
      check_value(*verb, key, setting_in(config, shown, key, value));
    }
  }
}

void check_top(const Config& config) {
  std::vector<std::string_view> possible;
  for (const auto& option : common_specs()) {
    if (is_common_key(option.name)) possible.push_back(option.name);
  }
  check_table(config, config.top, "", possible, [](const std::string& key) {
    return is_common_key(key) ? verb_named("status") : nullptr;
  });
}

void check_verbs(const Config& config) {
  for (const auto& [name, table] : config.verbs) {
    const auto* verb = verb_named(name);
    if (verb == nullptr) {
      const auto meant = did_you_mean(name, verb_names());
      throw broken_line(
          config.path, table.line,
          "unknown table [" + printable(name, 60) + "]" +
              (meant.empty() ? ": the table of a lock is [" + shown_lock(name) + "]"
                             : meant));
    }
    check_table(config, table, name, own_names(verb->verb), [&](const std::string& key) {
      return own_option(verb->verb, key) == nullptr ? nullptr : verb;
    });
  }
}

void check_locks(const Config& config) {
  for (const auto& [name, table] : config.locks) {
    try {
      parsed_name(name);
    } catch (const UsageError& error) {
      throw broken_line(config.path, table.line,
                        "[" + shown_lock(name) + "]: " + error.what());
    }
    std::vector<std::string_view> possible;
    for (const auto& verb : all_verbs()) {
      if (!is_about_lock(verb, name)) continue;
      const auto own = own_names(verb.verb);
      possible.insert(possible.end(), own.begin(), own.end());
    }
    check_table(
        config, table, shown_lock(name), possible,
        [&name = name](const std::string& key) { return verb_of_lock_with(name, key); });
  }
}

}  // namespace

std::string environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

bool flag(const Settings& settings, std::string_view name) {
  bool is_set = false;
  with_setting(settings, name,
               [&](const Setting& setting) { is_set = parsed_flag(setting.value); });
  return is_set;
}

bool is_from_file(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found != settings.end() && is_file(found->second.source);
}

Settings in_force(Settings settings, std::span<const Exclusion> exclusions) {
  using Rule = Exclusion::Rule;
  for (const auto& pair : exclusions) {
    const auto one = settings.find(pair.one);
    const auto other = settings.find(pair.other);
    const auto is_on_at = [&](Settings::iterator at) {
      return at != settings.end() &&
             is_on(at->first, at->second.value, pair.counts_default);
    };
    if (!is_on_at(one) || !is_on_at(other)) continue;
    const bool is_tie = one->second.source == other->second.source;
    if (is_tie && pair.rule == Rule::ranked_or_both) continue;
    const auto ignored = one->second.source > other->second.source ? one : other;
    if (is_tie || pair.rule == Rule::refused || is_wanted(settings, ignored->first)) {
      throw UsageError("--" + one->first + " and --" + other->first +
                           " cannot be combined" + std::string(pair.advice),
                       is_file(one->second.source) && is_file(other->second.source));
    }
    settings.erase(ignored);
  }
  return settings;
}

void check_value(const VerbSpec& verb, const std::string& name, const Setting& setting) {
  const Settings alone{{name, setting}};
  try {
    common_options(alone);
    if (verb.check != nullptr) verb.check(alone);
  } catch (const BadValue&) {
    throw;
  } catch (const UsageError&) {
    // It needs another setting, which may come from elsewhere.
  }
}

void check(const Config& config) {
  check_top(config);
  check_verbs(config);
  check_locks(config);
}

FoundConfig found_config(const OptionValues& options) {
  const auto& spec = *common_option("config");
  const auto option = options.find("config");
  auto named = option != options.end() ? option->second : environment(spec.environment);
  if (option != options.end() && named.empty()) {
    throw UsageError("--config: missing file name");
  }
  FoundConfig found{std::nullopt, !named.empty()};
  const auto path = config_path(settled(spec, named));
  if (path.empty()) return found;
  found.config = config_from(path);
  check(*found.config);
  return found;
}

Settings settings_from(const OptionValues& options, Verb verb, const std::string& lock,
                       const Config* config) {
  Settings settings;
  for (const auto& [name, value] : options) {
    // A file of the verb itself is used only by this process, in this directory.
    const auto* common =
        own_option(verb, name) == nullptr ? common_option(name) : nullptr;
    settings[name] = {common == nullptr ? value : settled(*common, value),
                      Setting::Source::command_line, "--" + name};
  }
  for (const auto& option : common_specs()) add_from_environment(settings, option);
  for (const auto& option : own_specs(verb)) add_from_environment(settings, option);
  for (const auto& [name, variable] : secret_variables) {
    const auto secret = environment(variable);
    if (secret.empty()) continue;
    settings[std::string(name)] = {secret, Setting::Source::environment, variable};
  }
  if (config) add_from_file(settings, verb, lock, *config);
  return settings;
}

std::vector<std::string> passed_on(const Settings& settings) {
  std::vector<std::string> variables;
  for (const auto& option : common_specs()) {
    const auto found = settings.find(option.name);
    if (found == settings.end() || option.environment.empty()) continue;
    if (std::ranges::count(not_passed_on, option.name) > 0) continue;
    variables.push_back(std::string(option.environment) + "=" + found->second.value);
  }
  return variables;
}

}  // namespace dlock
