// What a run tells the runs inside it, through the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// DLOCK_HELD: "NAME=FENCE" for each lock held above, outermost first, separated by
// spaces, names percent-encoded. What is not of that form is passed over: it came from
// the environment.
std::vector<Fence> outer_fences_of(std::string_view held, const std::string& name);
std::string with_grant(const std::string& held, const std::string& name, Fence fence);

// Whether a variable, "NAME=value", is one that no command gets from dlock.
bool is_secret(std::string_view entry);

struct CommandSettings {
  std::string name;
  std::optional<Grant> grant;  // nothing: it runs without the lock
  std::string store;
  std::string name_space;
  std::string config;                  // absolute, or empty
  std::string held;                    // DLOCK_HELD as dlock found it
  std::vector<std::string> passed_on;  // "NAME=value": how to get into the store
};

// The environment of the command: `inherited` with this run's values, without secrets.
std::vector<std::string> command_environment(const char* const* inherited,
                                             const CommandSettings& settings);

}  // namespace dlock
