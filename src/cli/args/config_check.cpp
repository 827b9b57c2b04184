#include "cli/args/config_check.hpp"

#include <algorithm>
#include <vector>

#include "cli/args/value_check.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view cache_locks = "cache:";

// The first verb, if several have an option of the same name.
const VerbSpec* verb_of_lock_with(std::string_view name, std::string_view key) {
  const VerbSpec* found = nullptr;
  for (const auto& verb : all_verbs()) {
    if (!is_about_lock(verb.verb, name) || option_in(verb.own(), key) == nullptr)
      continue;
    if (found == nullptr || verb.verb == Verb::cache) found = &verb;
  }
  return found;
}

bool is_common_key(std::string_view key) {
  return key != "config" && option_in(common_specs(), key) != nullptr;
}

// The tables that may contain such a key: "[run], [acquire] or [lock."NAME"]".
std::string tables_of(std::string_view key) {
  std::vector<std::string> tables;
  for (const auto& verb : all_verbs()) {
    if (option_in(verb.own(), key) == nullptr) continue;
    tables.push_back("[" + std::string(verb.name) + "]");
  }
  if (verb_of_lock_with("", key) != nullptr) {
    tables.emplace_back("[lock.\"NAME\"]");
  } else if (verb_of_lock_with(cache_locks, key) != nullptr) {
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
  auto possible = names_of(common_specs());
  std::erase(possible, "config");
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
    check_table(config, table, name, names_of(verb->own()), [&](const std::string& key) {
      return option_in(verb->own(), key) == nullptr ? nullptr : verb;
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
      if (!is_about_lock(verb.verb, name)) continue;
      const auto own = names_of(verb.own());
      possible.insert(possible.end(), own.begin(), own.end());
    }
    check_table(
        config, table, shown_lock(name), possible,
        [&name = name](const std::string& key) { return verb_of_lock_with(name, key); });
  }
}

}  // namespace

bool is_about_lock(Verb verb, std::string_view name) {
  switch (verb) {
    case Verb::run:
    case Verb::acquire:
    case Verb::renew:
    case Verb::release:
    case Verb::check:
    case Verb::status:
    case Verb::history:
    case Verb::break_lock: return true;
    case Verb::cache: return name.starts_with(cache_locks);
    case Verb::fence:
    case Verb::list:
    case Verb::watch:
    case Verb::limit:
    case Verb::doctor:
    case Verb::config:
    case Verb::help: break;
  }
  return false;
}

Setting setting_in(const Config& config, const std::string& shown, const std::string& key,
                   const ConfigValue& value) {
  const auto source =
      shown.starts_with("lock.") ? Setting::Source::lock_table : Setting::Source::file;
  return {value.text, source,
          printable(config.path) + ":" + std::to_string(value.line()) + ": " +
              (shown.empty() ? "" : shown + ".") + printable(key)};
}

void check(const Config& config) {
  check_top(config);
  check_verbs(config);
  check_locks(config);
}

}  // namespace dlock
