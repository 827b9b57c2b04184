#include "store/redis/announced.hpp"

#include <charconv>

namespace dlock::redis {

std::optional<milliseconds> milliseconds_from(const std::string& text) {
  constexpr std::int64_t day = 86'400'000;
  std::int64_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || parsed != last || value <= 0 || value > day) {
    return std::nullopt;
  }
  return milliseconds(value);
}

}  // namespace dlock::redis
