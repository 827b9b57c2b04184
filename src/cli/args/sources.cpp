#include "cli/args/sources.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "cli/args/config_check.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

// The settings passed to the command for a nested dlock.
constexpr std::string_view passed_on_names[] = {"user",
                                                "password-file",
                                                "replicas",
                                                "sentinel-user",
                                                "sentinel-password-file",
                                                "sentinel-tls",
                                                "min-strength",
                                                "max-ttl",
                                                "address-map",
                                                "tls-ca",
                                                "tls-cert",
                                                "tls-key",
                                                "tls-key-password-file",
                                                "tls-name",
                                                "tls-insecure"};

// Not options, because every user can read the arguments of a process.
struct SecretVariable {
  std::string_view setting;
  const char* variable;
};
constexpr SecretVariable secret_variables[] = {
    {"password", "DLOCK_PASSWORD"}, {"sentinel-password", "DLOCK_SENTINEL_PASSWORD"}};

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

bool is_common(const OptionSpec& spec) {
  const auto common = common_specs();
  return std::any_of(common.begin(), common.end(),
                     [&](const OptionSpec& other) { return &other == &spec; });
}

// The value with relative paths made absolute: relative to `directory`, or to the working
// directory if that is empty.
std::string settled(const OptionSpec& spec, const std::string& value,
                    const std::string& directory = "") {
  if (spec.value != "FILE" || value.empty() || value.front() == '/') return value;
  return absolute(directory + value);
}

// The named file, or the first default file that exists; empty if there is none.
std::string config_path(const std::string& named) {
  if (!named.empty()) return named;
  auto home = environment("HOME");
  if (home.empty()) home = home_directory(::geteuid());
  auto own = home + "/.config/dlock/config.toml";
  if (!home.empty() && ::access(own.c_str(), F_OK) == 0) return own;
  constexpr const char* global = "/etc/dlock/config.toml";
  return ::access(global, F_OK) == 0 ? global : "";
}

// Adds the settings of a table of the file that are among these options and not set yet.
void add_from_table(Settings& settings, const Config& config, const ConfigTable& table,
                    const std::string& shown, std::span<const OptionSpec> specs) {
  const auto directory = config.path.substr(0, config.path.rfind('/') + 1);
  for (const auto& [key, value] : table.keys) {
    const auto* spec = option_in(specs, key);
    if (spec == nullptr) continue;
    auto setting = setting_in(config, shown, key, value);
    // A common file is relative to the configuration file and not to the working
    // directory; otherwise another user's directory could provide the trusted
    // certificates.
    if (shown.empty()) setting.value = settled(*spec, setting.value, directory);
    settings.try_emplace(key, std::move(setting));
  }
}

void add_from_file(Settings& settings, const VerbSpec& verb, const std::string& lock,
                   const Config& config) {
  if (const auto of_lock = config.locks.find(lock); of_lock != config.locks.end()) {
    add_from_table(settings, config, of_lock->second, shown_lock(lock), verb.own());
  }
  if (const auto of_verb = config.verbs.find(verb.name); of_verb != config.verbs.end()) {
    add_from_table(settings, config, of_verb->second, of_verb->first, verb.own());
  }
  add_from_table(settings, config, config.top, "", common_specs());
}

void add_from_environment(Settings& settings, std::span<const OptionSpec> specs) {
  for (const auto& spec : specs) {
    if (spec.environment.empty()) continue;
    auto value = environment(spec.environment);
    if (value.empty()) continue;
    if (spec.value.empty() && value == "1") value = "true";
    if (spec.value.empty() && value == "0") value = "false";
    settings.try_emplace(std::string(spec.name),
                         Setting{settled(spec, value), Setting::Source::environment,
                                 std::string(spec.environment)});
  }
}

}  // namespace

FoundConfig found_config(const OptionValues& options) {
  const auto& spec = *option_in(common_specs(), "config");
  const auto option = options.find("config");
  auto named = option != options.end() ? option->second : environment(spec.environment);
  if (option != options.end() && named.empty()) {
    throw UsageError("--config: missing file name");
  }
  FoundConfig found{{}, !named.empty()};
  const auto path = config_path(settled(spec, named));
  if (path.empty()) return found;
  found.config = config_from(path);
  check(found.config);
  return found;
}

Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       const std::string& lock, const Config& config) {
  Settings settings;
  for (const auto& [name, value] : options) {
    const auto* spec = option_named(verb, name);
    settings[name] = {is_common(*spec) ? settled(*spec, value) : value,
                      Setting::Source::command_line, "--" + name};
  }
  add_from_environment(settings, common_specs());
  add_from_environment(settings, verb.own());
  for (const auto& [name, variable] : secret_variables) {
    const auto secret = environment(variable);
    if (secret.empty()) continue;
    settings[std::string(name)] = {secret, Setting::Source::environment, variable};
  }
  if (!config.path.empty()) add_from_file(settings, verb, lock, config);
  return settings;
}

std::vector<std::string> passed_on(const Settings& settings) {
  std::vector<std::string> variables;
  for (const auto& spec : common_specs()) {
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

}  // namespace dlock
