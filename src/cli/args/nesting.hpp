// Passes information to nested runs through the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// DLOCK_HELD has "NAME=FENCE" for each lock that an outer run holds, outermost first,
// separated by spaces, with percent-encoded names. Malformed entries are ignored, because
// the variable may come from anywhere.
std::vector<Fence> outer_fences_of(std::string_view held, const std::string& name);
std::string with_grant(const std::string& held, const std::string& name, Fence fence);

// Whether a variable, "NAME=value", is a secret that dlock does not pass to commands.
bool is_secret(std::string_view entry);

struct CommandSettings {
  std::string name;
  std::optional<Grant> grant;  // nothing if the command runs without the lock
  std::string store;
  std::string name_space;
  std::string run_id;
  std::string config;  // absolute, or empty
  std::string held;    // DLOCK_HELD as dlock found it
  std::vector<std::string>
      passed_on;  // "NAME=value": what a nested dlock needs to use the store
};

// The environment of the command: `inherited` plus the variables of this run, minus
// secrets.
std::vector<std::string> command_environment(const char* const* inherited,
                                             const CommandSettings& settings);

}  // namespace dlock
