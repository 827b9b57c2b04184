// The kernel namespaces of this process that matter to the contents of a store.
#pragma once

#include <cstdint>

namespace dlock::local {

// The kernel's numbers; 0 if the kernel has no such namespace.
struct Namespaces {
  std::uint64_t pids = 0;  // pids are comparable within it
  std::uint64_t time = 0;  // boot times are comparable within it
};

// Cached: dlock never changes its namespaces.
const Namespaces& own_namespaces();

}  // namespace dlock::local
