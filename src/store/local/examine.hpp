// Looks at the directory of a local store. It changes nothing, and creates nothing.
#pragma once

#include <string>

#include "lock/clock.hpp"
#include "store/local/health.hpp"

namespace dlock::local {

// `path` as LocalStore::Options has it. It waits for the gate for as long as `timeout`
// says; a database that is so damaged that to read it never ends is noticed some seconds
// later. Throws Failure (exhausted) where descriptors or memory to look with are short.
Facts facts_of(const std::string& path, milliseconds timeout);

}  // namespace dlock::local
