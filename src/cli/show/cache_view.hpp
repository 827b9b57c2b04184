// Shows a cached value (`dlock cache KEY --show`).
#pragma once

#include <optional>
#include <string>

#include "cli/args/exit_status.hpp"
#include "cli/args/options.hpp"
#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

// The cached value, if there is one, and the holder that is computing a new one.
struct CachedValue {
  std::optional<ValueInfo> value;
  std::optional<HolderInfo> computed_by;
};

// "5120 bytes, stored 3m12s ago, fresh for another 1m48s"; names the `store` if it has
// nothing.
std::string cached_text(const CachedValue& cached, const std::string& store);
Json json_of(const std::string& key, const CachedValue& cached);

// Prints the value's description. Exits with 0 if there is a value, 1 if not.
Exit show_value(const CommonOptions& common, const LockName& lock);

}  // namespace dlock
