// What the moments in a store's state are counted from: a boot of the machine.
#pragma once

#include <string>

namespace dlock::local {

// The boot's id as the kernel tells it. Containers may have one of their own. Throws
// Failure.
std::string boot_id();

// Names whose moments can be compared with ours: the boot's id, and behind it the time
// namespace if that is not the machine's first one, whose clocks run from elsewhere.
const std::string& own_epoch();

// The folder that has the state of the locks, of this epoch; and whether `name` is that
// of any epoch, or of what an earlier version of dlock had in its place.
std::string state_folder_name();
bool is_state_folder_name(const std::string& name);

}  // namespace dlock::local
