// The options with which run and acquire request a lock.
#pragma once

#include <optional>
#include <string>

#include "cli/args/options.hpp"

namespace dlock {

// These functions throw UsageError, as do the functions in options.hpp that call them.

// Sets the lock name, --wait, --ttl, --slots, --shared and --label.
void set_claim(const Settings& settings, const std::string& name, ClaimOptions& options);

// Leaves `ttl` unchanged if it was not set.
void set_ttl(const Settings& settings, milliseconds& ttl);

// How long to wait: max() means forever, nothing means not at all.
std::optional<milliseconds> chosen_wait(const Settings& settings);

}  // namespace dlock
