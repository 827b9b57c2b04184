// What was set, wherever that was, and how a setting is taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/values.hpp"
#include "lock/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// Where a value came from, for messages and for what is a fault of a file.
struct Setting {
  // What counts comes first.
  enum class Source { command_line, environment, lock_table, file };
  std::string value;
  Source source = Source::command_line;
  std::string origin;  // "--wait", "DLOCK_STORE", "/etc/dlock/config.toml:3: run.wait"
};

constexpr bool is_file(Setting::Source source) {
  return source >= Setting::Source::lock_table;
}

// That a setting has a value which is none for it, whatever the other settings are.
class BadValue : public UsageError {
 public:
  BadValue(const Setting& setting, const std::string& message)
      : UsageError(setting.origin + ": " + message, is_file(setting.source)) {}
};

// By the long option's name, only those that were set. Flags are "true" or "false".
// "password" and "sentinel-password" are there too, which are no options: only the
// environment can set them.
using Settings = std::map<std::string, Setting, std::less<>>;

// Calls `use` with the setting `name` if there is one, and tells where a value that it
// refuses came from.
template <typename Use>
void with_setting(const Settings& settings, std::string_view name, Use use) {
  const auto found = settings.find(name);
  if (found == settings.end()) return;
  const auto& setting = found->second;
  try {
    use(setting.value);
  } catch (const UsageError& error) {
    throw BadValue(setting, error.what());
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), setting.origin + ": " + failure.what());
  }
}

// "true" or "false"; false if it was not set.
bool flag(const Settings& settings, std::string_view name);

// Leaves `target` as it is if it was not set.
void duration(const Settings& settings, std::string_view name, milliseconds& target);

// A path, empty if it was not set; never one that is set to nothing.
std::string file_name(const Settings& settings, std::string_view name);

// A word that an option takes, and what it means.
template <typename Meaning>
struct Choice {
  std::string_view word;
  Meaning meaning;
};

// That a value is none of these words, and which it was probably meant to be.
UsageError no_choice(const std::string& value,
                     const std::vector<std::string_view>& words);

// Leaves `target` as it is if it was not set.
template <typename Meaning, std::size_t size>
void choice(const Settings& settings, std::string_view name,
            const Choice<Meaning> (&choices)[size], Meaning& target) {
  with_setting(settings, name, [&](const std::string& value) {
    const auto* chosen = std::find_if(std::begin(choices), std::end(choices),
                                      [&](const auto& c) { return c.word == value; });
    if (chosen == std::end(choices)) {
      std::vector<std::string_view> words;
      for (const auto& choice : choices) words.push_back(choice.word);
      throw no_choice(value, words);
    }
    target = chosen->meaning;
  });
}

// Whether it is set, and by a configuration file.
bool is_from_file(const Settings& settings, std::string_view name);

// Whether of two options that are set and exclude each other the first gives way: it is
// from the file, and the other is not, or from a table that counts before.
bool gives_way(const Settings& settings, std::string_view name, std::string_view other);

// What is to be thrown if neither gives way.
UsageError excluded(const Settings& settings, std::string_view name,
                    std::string_view other);

}  // namespace dlock
