#include "store/redis/life.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "store/redis/examine.hpp"

namespace dlock::redis {
namespace {

// Longer than any server is up, and within the range of the clock.
constexpr std::int64_t most_seconds = 1'000'000'000;

// A run_id has 40 hexadecimal digits; it is shown to users.
constexpr std::size_t longest_run_id = 64;

}  // namespace

std::optional<Life> life_from(std::string_view info, Clock::time_point now) {
  const auto fields = fields_of_info(info);
  const auto run_id = fields.find("run_id");
  const auto uptime = fields.find("uptime_in_seconds");
  if (run_id == fields.end() || uptime == fields.end()) return std::nullopt;
  const auto& text = uptime->second;
  std::int64_t seconds = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  const auto& id = run_id->second;
  const bool is_id = !id.empty() && id.size() <= longest_run_id &&
                     id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_id || !is_number || seconds < 0) return std::nullopt;
  // It counts whole seconds, the first of which may have been incomplete.
  const auto sure = std::clamp<std::int64_t>(seconds - 1, 0, most_seconds);
  return Life{run_id->second, now - std::chrono::seconds(sure)};
}

}  // namespace dlock::redis
