// The TOML file of settings.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "util/failure.hpp"

namespace dlock {

// Tells a line of the file. The parser counts from the beginning of the file each time,
// so it is asked only where the line is told to somebody.
using Line = std::function<std::size_t()>;

struct ConfigValue {
  std::string text;  // as the same option would have it on the command line
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

// Reads `path`. Throws Failure: `misconfigured` for what cannot be read or is no TOML
// with plain values, `rejected` for a file that others could have written.
Config config_from(const std::string& path);

// That something is wrong in that line: "/etc/dlock/config.toml:3: ...".
Failure broken_line(const std::string& path, const Line& line, const std::string& why);

// A table of a lock as the file has it: lock."NAME".
std::string shown_lock(const std::string& name);

}  // namespace dlock
