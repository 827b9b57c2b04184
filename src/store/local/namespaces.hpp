// The namespaces of this process that what is in a store depends on.
#pragma once

#include <cstdint>

namespace dlock::local {

// By the kernel's numbers; 0 where there are none.
struct Namespaces {
  std::uint64_t pids = 0;  // in which the ids of processes mean the same as here
  std::uint64_t time = 0;  // in which the clocks of a boot show the same as here
};

// dlock changes none of its own, so the kernel is asked once.
const Namespaces& own_namespaces();

}  // namespace dlock::local
