// The TOML file of settings.
#pragma once

#include <map>
#include <string>

namespace dlock {

struct ConfigValue {
  std::string text;  // as the same option would have it on the command line
};

// Keys by table; the top level is the table "".
using Config = std::map<std::string, std::map<std::string, ConfigValue>>;

// Reads `path`. Throws Failure: `misconfigured` for what cannot be read or is no TOML
// with plain values, `rejected` for a file that others could have written.
Config config_from(const std::string& path);

}  // namespace dlock
