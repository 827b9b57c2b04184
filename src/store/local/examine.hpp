// Examines the directory of a local store. It changes nothing and creates nothing.
#pragma once

#include <string>

#include "store/local/health.hpp"
#include "util/clock.hpp"

namespace dlock::local {

// `path` as for LocalStore. Waits up to `timeout` for the mutex of the set-up. Throws
// Failure (exhausted) if descriptors or memory are short.
Facts facts_of(const std::string& path, milliseconds timeout);

}  // namespace dlock::local
