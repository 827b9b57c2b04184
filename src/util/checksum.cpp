#include "util/checksum.hpp"

#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

namespace dlock {

std::uint64_t checksum(std::string_view bytes, std::uint64_t seed) {
  return ::XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string checksum_text(std::uint64_t sum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, sum);
  return text;
}

}  // namespace dlock
