// Reads the TOML configuration file.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "util/failure.hpp"

namespace dlock {

// Returns a line number of the file. The parser counts lines from the start of the file
// for every request, so this is called only when a message needs the line.
using Line = std::function<std::size_t()>;

struct ConfigValue {
  std::string text;  // as written for the same option on the command line
  Line line;
};

struct ConfigTable {
  Line line;
  std::map<std::string, ConfigValue, std::less<>> keys;
};

struct Config {
  std::string path;  // empty if there is no file
  ConfigTable top;
  std::map<std::string, ConfigTable, std::less<>> verbs;  // [run]
  std::map<std::string, ConfigTable, std::less<>> locks;  // [lock."NAME"]
};

// Reads `path`. Throws Failure: `misconfigured` if the file cannot be read or is not TOML
// with plain values, `rejected` if another user could have written it.
Config config_from(const std::string& path);

// How deeply a file may be nested. The parser calls itself for each level, so a file that
// is nested too deeply would exceed the stack, or take minutes.
inline constexpr std::size_t deepest_toml = 100;

// The number of the line in which arrays, inline tables and the parts of dotted keys are
// together nested more deeply than that; nothing if there is none. The dot of a number
// counts as well. Does not check that `toml` is valid.
std::optional<std::size_t> line_nested_too_deeply(std::string_view toml);

// A Failure about that line: "/etc/dlock/config.toml:3: ...".
Failure broken_line(const std::string& path, const Line& line, const std::string& why);

// The name of a lock's table as it is written in the file: lock."NAME".
std::string shown_lock(const std::string& name);

}  // namespace dlock
