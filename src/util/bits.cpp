#include "util/bits.hpp"

#include <sys/random.h>
#include <xxhash.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

std::array<std::uint8_t, 16> random_bytes() {
  std::array<std::uint8_t, 16> bytes{};
  // Up to 256 bytes are returned completely or not at all; EINTR is only possible during
  // boot.
  while (::getrandom(bytes.data(), bytes.size(), 0) !=
         static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) {
      throw failure_of_call(errno, "cannot draw random numbers", "getrandom");
    }
  }
  return bytes;
}

std::string new_uuid() {
  auto bytes = random_bytes();
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | 0x40);  // the version
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);  // the variant
  auto text = hex(bytes.data(), bytes.size());
  for (const int place : {8, 13, 18, 23})
    text.insert(static_cast<std::size_t>(place), 1, '-');
  return text;
}

namespace {

std::uint64_t reduced(std::uint64_t number, std::uint64_t most) {
  return most == UINT64_MAX ? number : number % (most + 1);
}

}  // namespace

std::uint64_t random_up_to(std::uint64_t most) {
  const auto bytes = random_bytes();
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return reduced(number, most);
}

std::uint64_t fixed_up_to(std::uint64_t most, std::string_view key) {
  return reduced(checksum(key), most);
}

std::uint64_t checksum(std::string_view bytes, std::uint64_t seed) {
  return ::XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string checksum_text(std::uint64_t sum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, sum);
  return text;
}

}  // namespace dlock
