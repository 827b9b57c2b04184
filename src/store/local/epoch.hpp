// The epoch that the times in a store's state count from: a boot of the machine.
#pragma once

#include <string>

namespace dlock::local {

// The kernel's boot id. Containers may have one of their own. Throws Failure.
std::string boot_id();

// Identifies the states whose times can be compared with ours: the boot id, followed by
// the time namespace unless that is the machine's initial one, whose clocks start at
// zero.
const std::string& own_epoch();

// The name of the folder with the state of the locks of this epoch; and whether `name`
// is that folder of any epoch, or what an earlier version of dlock had instead.
std::string state_folder_name();
bool is_state_folder_name(const std::string& name);

}  // namespace dlock::local
