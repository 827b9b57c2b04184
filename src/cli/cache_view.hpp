// What there is to see of a cached value.
#pragma once

#include <optional>
#include <string>

#include "cli/exit_status.hpp"
#include "cli/options.hpp"
#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

// A value, and who is about to store another one.
struct CachedValue {
  std::optional<ValueInfo> value;
  std::optional<HolderInfo> maker;
};

// "5120 bytes, stored 3m12s ago, fresh for another 1m48s"
std::string cached_text(const CachedValue& cached);
Json json_of(const std::string& key, const CachedValue& cached);

// `dlock cache KEY --show`: 0 if there is a value, 1 if not.
Exit show_value(const CommonOptions& common, const LockName& lock);

}  // namespace dlock
