// What sentences and tables say of a holder.
#pragma once

#include <string>

#include "lock/lease.hpp"

namespace dlock {

// Somebody who uses the same key but is not dlock.
constexpr const char* foreign_holder = "a foreign holder";

// "root@web1"
std::string owner_text(const std::string& user, const std::string& host);

// Whether it was granted by hand: no process stands for it, and it ends by itself.
bool is_detached(const HolderInfo& holder);

// Its label, as far as a sentence has room for it.
std::string shown_label(const HolderInfo& holder);

// "12s": until a lease ends that does.
std::string time_left(const HolderInfo& holder);

// "renewed for pid 20860": of a detached lease that is renewed for a process.
std::string renewed_for(const HolderInfo& holder);

// ", held for another 12s": of a lock that is held on after its run.
std::string hold_note(const HolderInfo& holder);

}  // namespace dlock
