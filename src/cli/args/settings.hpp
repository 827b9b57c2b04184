// Settings from all sources, and how to read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/values.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// A value and where it came from, for messages and to tell errors in a file from errors
// on the command line.
struct Setting {
  // In order of precedence.
  enum class Source { command_line, environment, lock_table, file };
  std::string value;
  Source source = Source::command_line;
  std::string origin;  // "--wait", "DLOCK_STORE", "/etc/dlock/config.toml:3: run.wait"
};

constexpr bool is_file(Setting::Source source) {
  return source >= Setting::Source::lock_table;
}

// A setting has an invalid value, whatever the other settings are.
class BadValue : public UsageError {
 public:
  BadValue(const Setting& setting, const std::string& message)
      : UsageError(setting.origin + ": " + message, is_file(setting.source)) {}
};

// A setting has no effect without another one, which may still come from elsewhere.
class NeedsAnother : public UsageError {
 public:
  using UsageError::UsageError;
};

// Settings by the long option's name, only those that were set. Flags are "true" or
// "false". "password" and "sentinel-password" are included though they are not options:
// only the environment can set them.
using Settings = std::map<std::string, Setting, std::less<>>;

// Calls `use` with the value of the setting `name` if it is set. If `use` throws, adds
// the setting's origin to the message.
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

// The value of a flag; false if it was not set.
bool flag(const Settings& settings, std::string_view name);

// Leaves `target` as it is if it was not set.
void duration(const Settings& settings, std::string_view name, milliseconds& target);

// A path; empty if it was not set. Throws UsageError if it was set to nothing.
std::string file_name(const Settings& settings, std::string_view name);

// A word that an option accepts, and its meaning.
template <typename Meaning>
struct Choice {
  std::string_view word;
  Meaning meaning;
};

// The value is none of these words: the error lists them and suggests the nearest one.
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

// Whether it was set by a configuration file.
bool is_from_file(const Settings& settings, std::string_view name);

// Whether the first of two options that exclude each other yields to the second: it is
// from the file, and the second is not, or is from a table with higher precedence.
bool gives_way(const Settings& settings, std::string_view name, std::string_view other);

// The error to throw if neither yields.
UsageError excluded(const Settings& settings, std::string_view name,
                    std::string_view other);

}  // namespace dlock
