// Random bits from the kernel, and checksums.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlock {

// 128 bits from getrandom(2). Throws Failure (exhausted) if the system does not have it.
std::array<std::uint8_t, 16> random_bytes();

// A random UUID (version 4) in its usual form.
std::string new_uuid();

// A number from 0 to `most`, distributed evenly enough for jitter (the bias of the
// remainder is below 2^-32 for every duration in use).
std::uint64_t random_up_to(std::uint64_t most);

// A number from 0 to `most` that is always the same for the same key, on every machine
// and with every version of dlock: the checksum of the key, modulo most + 1.
std::uint64_t fixed_up_to(std::uint64_t most, std::string_view key);

// The 64-bit XXH3 of `bytes`, seeded with an earlier checksum in `seed`. It detects
// damage, not forgery: whoever can write a file can write anything.
std::uint64_t checksum(std::string_view bytes, std::uint64_t seed = 0);

// A checksum as it is stored in files and on servers: 16 hexadecimal digits.
std::string checksum_text(std::uint64_t sum);

}  // namespace dlock
