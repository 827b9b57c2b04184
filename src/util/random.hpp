// Random bits from the kernel.
#pragma once

#include <array>
#include <cstdint>

namespace dlock {

// 128 bits from getrandom(2). Throws std::system_error if the kernel has none, which does
// not happen once it has booted.
std::array<std::uint8_t, 16> random_bytes();

// A number from 0 to `most`, distributed evenly enough for jitter (the bias of the
// remainder is below 2^-32 for every duration in use).
std::uint64_t random_up_to(std::uint64_t most);

}  // namespace dlock
