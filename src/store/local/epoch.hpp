// The epoch that the times in a store's state count from, and the kernel namespaces in
// which its pids and times are valid.
#pragma once

#include <cstdint>
#include <string>

namespace dlock::local {

// The kernel's numbers; 0 if the kernel has no such namespace.
struct Namespaces {
  std::uint64_t pids = 0;  // pids are comparable within it
  std::uint64_t time = 0;  // boot times are comparable within it
};

// Cached: dlock never changes its namespaces.
const Namespaces& own_namespaces();

// The kernel's boot id. Containers may have one of their own. Throws Failure.
std::string boot_id();

// Identifies the states whose times can be compared with ours: the boot id, followed by
// the time namespace unless that is the machine's initial one, whose clocks start at
// zero.
const std::string& own_epoch();

}  // namespace dlock::local
