// The options by which run, acquire and their like ask for a lock.
#pragma once

#include <optional>
#include <string>

#include "cli/options.hpp"

namespace dlock {

// They throw UsageError, like those of options.hpp that use them.

// The lock, --wait, --ttl, --slots, --shared and --label.
void set_claim(const Settings& settings, const std::string& name, ClaimOptions& options);

// Leaves `ttl` as it is if it was not set.
void set_ttl(const Settings& settings, milliseconds& ttl);

// How long to wait: max() for ever, nothing if not at all.
std::optional<milliseconds> chosen_wait(const Settings& settings);

}  // namespace dlock
