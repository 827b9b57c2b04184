// Looks at the locks of the embedded store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/local/files.hpp"

namespace dlock::local {

// Takes no mutex, so that readers do not delay changes to a lock, nor wait for them.
// `files` must outlive the inspector.
std::unique_ptr<LockInspector> inspector_of(Files& files);

// Adds what the rules do not know: account names, and whether dlock still runs.
void complete(std::vector<HolderInfo>& holders, const State& state);

// Replaces a user id by the account's name.
void name_user(std::string& user);

}  // namespace dlock::local
