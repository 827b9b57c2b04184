#include "cli/sources.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "cli/config_file.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

// Of these the command hears, for a dlock inside it.
constexpr std::string_view passed_on_names[] = {
    "user", "password-file", "tls-ca", "tls-cert", "tls-key", "tls-insecure"};

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
             did_you_mean(table, verb_names()));
    }
    const auto specs = table.empty() ? common_specs() : of_verb->own();
    for (const auto& [key, value] : keys) {
      const auto spec =
          std::find_if(specs.begin(), specs.end(),
                       [&name = key](const OptionSpec& s) { return s.name == name; });
      const auto shown = (table.empty() ? "" : table + ".") + key;
      if (table.empty() && key == "password") {
        refuse(
            "a password is not taken from here; password-file names the file it is in");
      }
      if (spec == specs.end() || key == "config") {
        auto names = names_of(specs);
        std::erase(names, "config");
        refuse("unknown key " + printable(shown) + did_you_mean(key, names));
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

}  // namespace

Settings settings_from(const OptionValues& options, const VerbSpec& verb,
                       std::string& config) {
  Settings settings;
  for (const auto& [name, value] : options) {
    const auto* spec = option_named(verb, name);
    settings[name] = {is_common(*spec) ? settled(*spec, value) : value,
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
  for (const auto& spec : common_specs()) add_from_environment(spec);
  for (const auto& spec : verb.own()) add_from_environment(spec);
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
