// Describes a holder, for messages and tables.
#pragma once

#include <string>

#include "lock/lease.hpp"

namespace dlock {

// A client that is not dlock and uses the same key.
constexpr const char* foreign_holder = "a foreign holder";

// "root@web1"
std::string owner_text(const std::string& user, const std::string& host);

// Whether the lease was acquired by hand: it belongs to no process and expires unless it
// is renewed.
bool is_detached(const HolderInfo& holder);

// The label, shortened for messages.
std::string shown_label(const HolderInfo& holder);

// "12s": the time until the lease expires.
std::string time_left(const HolderInfo& holder);

// "renewed for pid 20860": for a detached lease that is renewed while a process lives.
std::string renewed_for(const HolderInfo& holder);

// ", held for another 12s": for a lock that is still held after its run. Empty if that is
// not known.
std::string hold_note(const HolderInfo& holder);

}  // namespace dlock
