// Random bits from the kernel.
#pragma once

#include <array>
#include <cstdint>

namespace dlock {

// 128 bits from getrandom(2). Throws std::system_error if the kernel has none,
// which it never says once it has booted.
std::array<std::uint8_t, 16> random_bytes();

// A number from 0 to `most`, evenly spread well enough for jitter (the bias of
// the remainder is below 2^-32 for anything that fits a duration in use).
std::uint64_t random_up_to(std::uint64_t most);

}  // namespace dlock
