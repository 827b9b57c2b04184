#include "util/random.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace dlock {

std::array<std::uint8_t, 16> random_bytes() {
  std::array<std::uint8_t, 16> bytes{};
  // Up to 256 bytes are returned completely or not at all; EINTR is only possible during
  // boot.
  while (::getrandom(bytes.data(), bytes.size(), 0) !=
         static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR)
      throw std::system_error(errno, std::system_category(), "getrandom");
  }
  return bytes;
}

std::uint64_t random_up_to(std::uint64_t most) {
  const auto bytes = random_bytes();
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return most == UINT64_MAX ? number : number % (most + 1);
}

}  // namespace dlock
