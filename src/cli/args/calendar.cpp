#include "cli/args/calendar.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>

#include "cli/args/usage_hint.hpp"
#include "cli/args/values.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::seconds;

constexpr std::string_view period_names[] = {"hour", "day", "week", "month"};

// Midnight of the first day of the period, as local time.
seconds first_midnight(Period period, seconds local) {
  using namespace std::chrono;
  const auto day = floor<days>(sys_seconds(local));
  if (period == Period::week) {
    const auto since_monday = weekday(day).iso_encoding() - 1;
    return (day - days(since_monday)).time_since_epoch();
  }
  if (period == Period::day) return day.time_since_epoch();
  const year_month_day date(day);
  return sys_days(date.year() / date.month() / 1).time_since_epoch();
}

// The first moment in (low, high] for which `holds`, which it does from there on.
template <typename Holds>
UnixTime first_in(UnixTime low, UnixTime high, Holds holds) {
  while (high - low > seconds(1)) {
    const auto middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

// The first moment at which clocks show this local time, or would if they did not go
// forward over it.
UnixTime first_shown(seconds local, const UtcOffset& offset) {
  // Offsets are between -12 and +14 hours.
  const auto low = local - hours(15);
  const auto high = local + hours(13);
  std::optional<UnixTime> first;
  for (auto at = low; at <= high; at += hours(1)) {
    const auto shown = local - offset(at);
    if (offset(shown) == local - shown && (!first || shown < *first)) first = shown;
  }
  if (first) return *first;
  return first_in(low, high, [&](UnixTime at) { return at + offset(at) >= local; });
}

constexpr const char* zones_by_default = "/usr/share/zoneinfo";

std::string zones_directory() {
  const auto own = environment("TZDIR");
  return own.empty() ? zones_by_default : own;
}

// Whether `path` is a file of the time zone database.
bool is_zone_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  char begin[4] = {};
  return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::read(file.get(), begin, sizeof begin) == sizeof begin &&
         std::memcmp(begin, "TZif", sizeof begin) == 0;
}

// Whether it has the form of a name like America/Argentina/Buenos_Aires or Etc/GMT+5.
// None has a dot, so none leads out of the directory.
bool is_zone_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_text &&
         are_alphanumeric_or(text, "_+-/") && text.front() != '/' && text.back() != '/' &&
         text.find("//") == std::string_view::npos;
}

// Whether it begins like the POSIX form of TZ, such as CET-1CEST,M3.5.0,M10.5.0/3.
bool is_posix_zone(std::string_view text) {
  std::size_t end = 0;
  if (text.starts_with('<')) {
    end = text.find('>') == std::string_view::npos ? 0 : text.find('>') + 1;
  } else {
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0)
      ++end;
  }
  if (end < 3 || end == text.size()) return false;
  if (text[end] == '+' || text[end] == '-') ++end;
  return end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0;
}

UsageError no_zone(const std::string& zone) {
  const auto directory = zones_directory();
  const auto shown = "'" + printable(zone, 60) + "'";
  if (::access(directory.c_str(), F_OK) != 0) {
    return UsageError("cannot use the time zone " + shown + ": there is no " +
                      printable(directory) + " (package tzdata); UTC needs none");
  }
  return UsageError(shown + " is not a time zone: expected a name in " +
                    printable(directory) + ", such as Europe/Berlin or UTC");
}

// The value of TZ for a zone that the user named.
std::string variable_for(const std::string& zone) {
  if (zone == "UTC") return "UTC0";
  if (!is_zone_name(zone) || !is_zone_file(zones_directory() + "/" + zone)) {
    throw no_zone(zone);
  }
  return ":" + zone;
}

// The C library takes a TZ that it does not understand for UTC, without a word.
void check_variable(const char* variable) {
  if (variable == nullptr) return;
  std::string zone = variable;
  if (zone.starts_with(':')) zone.erase(0, 1);
  if (zone.empty() || zone == "UTC" || is_posix_zone(zone)) return;
  if (is_zone_file(zone.starts_with('/') ? zone : zones_directory() + "/" + zone)) return;
  throw UsageError("TZ: " + std::string(no_zone(zone).what()));
}

// In the zone that is in force.
seconds offset_at(UnixTime at) {
  const auto time = static_cast<std::time_t>(at.count());
  std::tm parts{};
  return ::localtime_r(&time, &parts) != nullptr ? seconds(parts.tm_gmtoff) : seconds(0);
}

std::optional<Period> period_named(const std::string& text) {
  const auto name = text.substr(0, text.find('@'));
  const auto* found = std::ranges::find(period_names, name);
  if (found == std::end(period_names)) return std::nullopt;
  return static_cast<Period>(found - std::begin(period_names));
}

DedupeWindow current(Period period, const std::string& text, const std::string* zone) {
  // For this process alone, and not for the command.
  const auto set = [](const std::optional<std::string>& variable) {
    variable ? ::setenv("TZ", variable->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  };
  std::optional<std::string> before;
  if (const char* variable = std::getenv("TZ")) before = variable;
  if (zone == nullptr) check_variable(before ? before->c_str() : nullptr);
  set(zone != nullptr ? variable_for(*zone) : before);
  const OnExit restore([&] { set(before); });
  const auto now = wall_now();
  const auto began = begin_of(period, std::chrono::floor<seconds>(now), offset_at);
  DedupeWindow window;
  window.span = std::max(std::chrono::ceil<milliseconds>(now - began), milliseconds(1));
  window.period = text;
  window.began = Clock::now() - (now - began);
  window.began_at = began;
  return window;
}

}  // namespace

UnixTime begin_of(Period period, UnixTime now, const UtcOffset& offset) {
  const auto local = now + offset(now);
  if (period != Period::hour) {
    return std::min(now, first_shown(first_midnight(period, local), offset));
  }
  const auto begin = now - (local - std::chrono::floor<hours>(local));
  const auto is_as_now = [&](UnixTime at) {
    return at + offset(at) == local - (now - at);
  };
  return is_as_now(begin) ? begin : first_in(begin, now, is_as_now);
}

std::string recorded_period(const DedupeWindow& window) {
  return window.period.empty() ? "" : window.period + " " + rfc3339(window.began_at);
}

bool is_period(const std::string& text) { return period_named(text).has_value(); }

DedupeWindow current_period(const std::string& text) {
  const auto at = text.find('@');
  const auto found = period_named(text);
  if (!found) {
    throw UsageError(
        "expected a duration such as 12h, or hour, day, week or month, "
        "as in day@Europe/Berlin, not '" +
        printable(text, 60) + "'" + did_you_mean(text.substr(0, at), period_names));
  }
  if (at == std::string::npos) return current(*found, text, nullptr);
  const auto zone = text.substr(at + 1);
  return current(*found, text, &zone);
}

}  // namespace dlock
