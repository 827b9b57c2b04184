// Checksums that detect damage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlock {

// The 64-bit XXH3 of `bytes`, seeded with an earlier checksum in `seed`. It detects
// damage, not forgery: whoever can write a file can write anything.
std::uint64_t checksum(std::string_view bytes, std::uint64_t seed = 0);

// A checksum as it is stored in files and on servers: 16 hexadecimal digits.
std::string checksum_text(std::uint64_t sum);

}  // namespace dlock
