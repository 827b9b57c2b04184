// A checksum against damage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlock {

// XXH3 with 64 bits, of `bytes` and of what `seed` is the checksum of. Against damage,
// not against forgery: who may write a file may write anything.
std::uint64_t checksum(std::string_view bytes, std::uint64_t seed = 0);

// As it stands in files and on servers: 16 hexadecimal digits.
std::string checksum_text(std::uint64_t sum);

}  // namespace dlock
