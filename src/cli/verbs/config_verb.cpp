#include <algorithm>
#include <iterator>

#include "cli/args/option_table.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/event_loop.hpp"
#include "util/json.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// A setting in effect; `value` is empty if nothing is set.
struct SettingRow {
  const VerbSpec* verb;  // null for a common option
  std::string option;
  std::optional<std::string> value;
  std::string source;
  std::string origin;  // empty for a default

  std::string setting() const {
    return (verb == nullptr ? "" : std::string(verb->name()) + ".") + option;
  }
};

std::optional<std::string> default_of(const OptionSpec& option) {
  if (!option.usual.empty()) return std::string(option.usual);
  return option.is_flag() ? std::optional<std::string>("false") : std::nullopt;
}

std::string_view word_of(Setting::Source source) {
  switch (source) {
    case Setting::Source::command_line: return "option";
    case Setting::Source::environment: return "variable";
    case Setting::Source::lock_table:
    case Setting::Source::file: break;
  }
  return "file";
}

bool is_secret_option(std::string_view option) { return option == "token"; }

SettingRow row_of(const VerbSpec* verb, const OptionSpec& option,
                  const Settings& settings) {
  const auto name = std::string(option.name);
  const auto found = settings.find(name);
  if (found == settings.end()) {
    return {verb, name, default_of(option), "default", ""};
  }
  const auto& setting = found->second;
  auto value = is_secret_option(name) ? "***" : setting.value;
  std::ranges::replace(value, also_separator, ',');
  return {verb, name, std::move(value), std::string(word_of(setting.source)),
          setting.origin};
}

// The settings of other programs for this kind of store that are in force.
void add_outside(std::vector<SettingRow>& rows, const StoreUrl& store) {
  if (store.kind->outside == nullptr) return;
  for (const auto& setting : store.kind->outside(store)) {
    std::string source = setting.is_variable ? "variable" : "file";
    auto value = setting.value.empty() ? std::nullopt : std::optional(setting.value);
    const auto same = std::ranges::find_if(rows, [&](const SettingRow& row) {
      return row.option == setting.name &&
             (row.option == "user" || row.option == "store-timeout");
    });
    if (same != rows.end()) {
      const bool is_in_url = setting.origin.empty();
      if (is_in_url) source = rows.front().source;
      if (same->option == "user" || same->source == "default") {
        *same = {nullptr, same->option, value, source,
                 is_in_url ? rows.front().origin : setting.origin};
      }
      continue;
    }
    const bool is_known = setting.name == "password";
    rows.push_back({nullptr, (is_known ? "" : "store.") + setting.name, value, source,
                    setting.origin});
  }
}

std::vector<SettingRow> common_rows(const Invocation& invocation, const Config& config) {
  std::vector<SettingRow> rows;
  const auto settings = in_force(invocation.settings, common_exclusions());
  for (const auto& option : common_specs()) {
    auto row = row_of(nullptr, option, settings);
    if (option.name == "config" && !config.path.empty()) row.value = config.path;
    if (option.name == "store") {
      // As the store reports its URL: without a password, with the directory.
      EventLoop context;
      const auto& common = invocation.common;
      row.value = open_store(common.store, store_timeout(common, {}), context)->url();
    }
    rows.push_back(std::move(row));
  }
  const bool is_given = !environment("DLOCK_HOST").empty();
  rows.push_back({nullptr, "host", host_name(), is_given ? "variable" : "default",
                  is_given ? "DLOCK_HOST" : ""});
  for (const char* secret : {"password", "sentinel-password"}) {
    const auto found = invocation.settings.find(secret);
    if (found == invocation.settings.end()) continue;
    rows.push_back({nullptr, secret, "***", "variable", found->second.origin});
  }
  add_outside(rows, invocation.common.store);
  return rows;
}

// The settings of verbs: of all of them, or of those that act on the lock `name`.
std::vector<SettingRow> verb_rows(const std::string& name, const Config& config) {
  std::vector<SettingRow> rows;
  for (const auto& verb : all_verbs()) {
    if (!name.empty() && !is_about_lock(verb, name)) continue;
    const auto settings =
        in_force(settings_from({}, verb.verb, name, &config), own_exclusions());
    for (const auto& option : own_specs(verb.verb)) {
      rows.push_back(row_of(&verb, option, settings));
    }
  }
  return rows;
}

std::string about_table(const Config& config, const VerbSpec& verb,
                        const std::string& name, const UsageError& error) {
  const auto table = name.empty() ? std::string(verb.name()) : shown_lock(name);
  return printable(config.path) + ": [" + table + "]: " + error.what();
}

// Checks that the file's settings for each verb and lock can be combined. Only warns,
// unless `quiet`, if one needs another: the command line may add that.
void check_all_together(const Config& config, bool quiet) {
  if (config.path.empty()) return;
  std::vector<std::string> names{""};
  for (const auto& [name, table] : config.locks) names.push_back(name);
  for (const auto& name : names) {
    for (const auto& verb : all_verbs()) {
      if (!name.empty() && !is_about_lock(verb, name)) continue;
      try {
        const auto settings = settings_from({}, verb.verb, name, &config);
        common_options(settings);
        if (verb.check != nullptr) verb.check(settings);
      } catch (const NeedsAnother& error) {
        if (!error.from_file()) continue;
        Speaker("", quiet, false).warning(about_table(config, verb, name, error));
      } catch (const UsageError& error) {
        if (!error.from_file()) continue;
        throw UsageError(about_table(config, verb, name, error), true);
      }
    }
  }
}

std::string rows_text(const std::vector<SettingRow>& rows, bool color) {
  Table table({"SETTING", "VALUE", "FROM"});
  for (const auto& row : rows) {
    table.add({row.setting(), row.value ? printable(*row.value) : "-",
               row.origin.empty() ? row.source : row.origin});
  }
  return table.text("", color);
}

Json rows_json(const std::vector<SettingRow>& rows, const std::string& name,
               const std::string& path) {
  Json settings = Json::array();
  for (const auto& row : rows) {
    settings.push_back({{"setting", row.setting()},
                        {"value", or_null(row.value)},
                        {"source", row.source},
                        {"origin", text_or_null(row.origin)}});
  }
  return {{"name", text_or_null(name)},
          {"file", text_or_null(path)},
          {"settings", std::move(settings)}};
}

}  // namespace

Exit config_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto name =
      invocation.operands.empty() ? "" : parsed_name(invocation.operands.front());
  OptionValues options;
  if (!invocation.config.empty()) options["config"] = invocation.config;
  const auto config = found_config(options).config.value_or(Config());
  check_all_together(config, common.quiet);

  auto rows = common_rows(invocation, config);
  auto own = verb_rows(name, config);
  std::move(own.begin(), own.end(), std::back_inserter(rows));
  print(common.json ? to_line(rows_json(rows, name, config.path)) + "\n"
                    : rows_text(rows, use_color(common.color)));
  return ExitStatus::success;
}

}  // namespace dlock
