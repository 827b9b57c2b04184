#include "cli/args/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "lock/history.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

struct Unit {
  std::string_view name;
  double in_milliseconds;
};
constexpr Unit units[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000},
                          {"m", 60'000},     {"s", 1000},      {"ms", 1}};

// What people write for units.
struct UnitWord {
  std::string_view unit;
  std::string_view words[6];
};
constexpr UnitWord unit_words[] = {
    {"ms", {"ms", "msec", "msecs", "millis", "millisecond", "milliseconds"}},
    {"s", {"s", "sec", "secs", "second", "seconds"}},
    {"m", {"m", "min", "mins", "minute", "minutes"}},
    {"h", {"h", "hr", "hrs", "hour", "hours"}},
    {"d", {"d", "day", "days"}},
    {"KB", {"KB", "kB", "kb"}},
    {"KiB", {"KiB", "K", "k"}},
    {"MB", {"MB", "mb"}},
    {"MiB", {"MiB", "M"}},
    {"GB", {"GB", "gb"}},
    {"GiB", {"GiB", "G"}},
};

// The possible error of a sum of decimal fractions.
constexpr double rounding = 1e-6;

// Far beyond any use, and far below the overflow of nanoseconds.
constexpr double longest = 100.0 * 366 * 86'400'000;

constexpr unsigned highest_rate = 10'000;

UsageError no_duration(std::string_view text) {
  return UsageError("'" + printable(text, 60) +
                    "' is not a duration: expected a number and ms, s, m, h or d, "
                    "such as 5m or 1h30m");
}

// Removes digits with at most one point from the front of `text`.
double take_decimal(std::string_view& text, std::string_view whole) {
  const auto end = text.find_first_not_of("0123456789.");
  const auto digits = text.substr(0, end);
  double number = 0;
  const auto* last = digits.data() + digits.size();
  const auto [parsed, error] =
      std::from_chars(digits.data(), last, number, std::chars_format::fixed);
  if (error != std::errc() || parsed != last) throw no_duration(whole);
  text.remove_prefix(digits.size());
  return number;
}

}  // namespace

std::string_view unit_meant_by(std::string_view word) {
  for (const auto& [unit, words] : unit_words) {
    if (!word.empty() && std::ranges::count(words, word) > 0) return unit;
  }
  return "";
}

milliseconds parsed_duration(std::string_view text) {
  const auto whole = text;
  if (text.empty()) throw no_duration(whole);
  double sum = 0;
  double last_unit = HUGE_VAL;
  do {
    const double number = take_decimal(text, whole);
    const auto end = text.find_first_of("0123456789.");
    const auto name = text.substr(0, end);
    const bool plain = text.empty() && last_unit == HUGE_VAL;
    const auto* unit = std::ranges::find_if(units, [&](const Unit& u) {
      return u.name == (plain ? "s" : name) && u.in_milliseconds < last_unit;
    });
    if (unit == std::end(units)) throw no_duration(whole);
    sum += number * unit->in_milliseconds;
    last_unit = unit->in_milliseconds;
    text.remove_prefix(name.size());
  } while (!text.empty());
  if (sum > longest) {
    throw UsageError("'" + printable(whole, 60) + "' is longer than 100 years");
  }
  return milliseconds(static_cast<std::int64_t>(std::ceil(sum - rounding)));
}

milliseconds parsed_patience(std::string_view text) {
  return text == "forever" ? milliseconds::max() : parsed_duration(text);
}

milliseconds parsed_time_limit(std::string_view text) {
  const auto span = parsed_duration(text);
  if (span.count() == 0) throw UsageError("cannot be zero");
  return span;
}

milliseconds parsed_kept_time(std::string_view text) {
  const auto span = parsed_duration(text);
  constexpr std::chrono::hours longest_kept{30 * 24};
  static_assert(longest_kept < run_retention);
  if (span > longest_kept) throw UsageError("must be at most 30 days");
  return span;
}

milliseconds parsed_lease_length(std::string_view text) {
  constexpr milliseconds shortest{500};
  const auto span = parsed_duration(text);
  if (span < shortest) throw UsageError("must be at least 500ms");
  return span;
}

bool parsed_flag(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  throw UsageError("expected true or false, not '" + printable(text, 60) + "'");
}

unsigned parsed_number(std::string_view text, unsigned least, unsigned most) {
  const auto number = number_in<unsigned>(text);
  if (!number || *number < least || *number > most) {
    throw UsageError("'" + printable(text, 60) + "' is not a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return *number;
}

int parsed_priority(std::string_view text) {
  const auto number = number_in<int>(text);
  if (!number || *number < -20 || *number > 19) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a whole number from -20 (first) to 19 (last)");
  }
  return *number;
}

std::size_t parsed_size(std::string_view text) {
  constexpr std::pair<std::string_view, std::uint64_t> size_units[] = {
      {"", 1},         {"B", 1},          {"KB", 1000},        {"KiB", 1u << 10},
      {"MB", 1000000}, {"MiB", 1u << 20}, {"GB", 1000000000u}, {"GiB", 1u << 30}};
  // The maximum size of a string in Redis.
  constexpr std::uint64_t most = std::uint64_t{512} << 20;
  const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
  const auto name = text.substr(digits.size());
  const auto number = number_in<std::uint64_t>(digits);
  const auto* unit = std::ranges::find(
      size_units, name, &std::pair<std::string_view, std::uint64_t>::first);
  if (digits.empty() || unit == std::end(size_units)) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a size: expected bytes, such as 16MiB, 500KB or 4096");
  }
  if (!number || *number > most / unit->second) {
    throw UsageError("'" + printable(text, 60) + "' is more than 512MiB");
  }
  return *number * unit->second;
}

Rate parsed_rate(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a rate: expected NUMBER/PERIOD, such as 5/1m or 10/800ms");
  }
  Rate rate;
  rate.most = parsed_number(text.substr(0, slash), 1, highest_rate);
  std::string period(text.substr(slash + 1));
  if (std::ranges::count(units, period, &Unit::name) > 0) period.insert(0, 1, '1');
  rate.period = parsed_duration(period);
  if (rate.period.count() == 0) throw UsageError("the period of a rate cannot be zero");
  return rate;
}

std::string parsed_text(const std::string& text, const std::string& what) {
  if (text.empty()) throw UsageError("a " + what + " cannot be empty");
  if (text.size() > longest_text) {
    throw UsageError("a " + what + " can have at most 255 bytes; this one has " +
                     std::to_string(text.size()));
  }
  if (!is_printable_utf8(text)) {
    throw UsageError("'" + printable(text) +
                     "' contains bytes that are not printable UTF-8");
  }
  return text;
}

std::string parsed_name(const std::string& text) {
  const auto reason = unfit_in_name(text);
  if (!text.empty() && text.size() <= longest_text && !reason.empty()) {
    throw UsageError("'" + printable_name(text) + "' is not a name: " + reason);
  }
  return parsed_text(text, "name");
}

namespace {

void take_option(AlsoLock& lock, std::string_view word, const std::string& whole) {
  constexpr std::string_view slots = "slots=";
  const bool sets_slots = word.starts_with(slots);
  if (!sets_slots && word != "shared") {
    throw UsageError(
        "'" + printable(word, 60) + "' in '" + printable(whole) +
        "' is neither shared nor slots=N (if it belongs to the name, write '" +
        printable(whole) + ":')");
  }
  lock.has_slots = lock.has_slots || sets_slots;
  if (sets_slots) lock.slots = parsed_number(word.substr(slots.size()), 1, most_slots);
  lock.shared = lock.shared || !sets_slots;
}

AlsoLock also_lock_in(const std::string& text) {
  const auto colon = text.rfind(':');
  AlsoLock lock;
  lock.name = parsed_name(text.substr(0, colon));
  if (colon == std::string::npos || colon + 1 == text.size()) return lock;
  const auto words = split(std::string_view(text).substr(colon + 1), ',');
  for (const auto& word : words) take_option(lock, word, text);
  if (words.size() > 1) {
    throw UsageError("'" + printable(text) +
                     "' has more than one option: set either shared or slots=N, once");
  }
  return lock;
}

}  // namespace

std::vector<AlsoLock> parsed_also(const std::string& text) {
  constexpr std::size_t most_locks = 16;
  std::vector<AlsoLock> locks;
  for (const auto one : split(text, also_separator)) {
    auto lock = also_lock_in(std::string(one));
    if (std::ranges::count(locks, lock.name, &AlsoLock::name) > 0) {
      throw UsageError("'" + printable(lock.name) + "' is named twice");
    }
    locks.push_back(std::move(lock));
  }
  if (locks.size() > most_locks) {
    throw UsageError("at most " + std::to_string(most_locks) + " locks, not " +
                     std::to_string(locks.size()));
  }
  return locks;
}

std::string parsed_path(const std::string& text) {
  if (text.empty()) throw UsageError("missing file name");
  return text;
}

std::string parsed_file_name(const std::string& text) {
  if (text.find('\0') != std::string::npos) throw UsageError("invalid file name");
  return parsed_path(text);
}

std::string parsed_shell_line(const std::string& text) {
  if (text.find('\0') != std::string::npos) throw UsageError("invalid shell command");
  return text;
}

std::string parsed_user(const std::string& text) {
  if (text.empty()) throw UsageError("missing user name");
  if (!is_printable_utf8(text)) throw UsageError("not printable UTF-8");
  return text;
}

std::string parsed_tls_name(const std::string& text) {
  const bool is_name =
      !text.empty() && text.size() <= longest_text && are_alphanumeric_or(text, "-._:");
  if (!is_name) {
    throw UsageError("'" + printable(text, 60) + "' is not a host name or an address");
  }
  return text;
}

Token parsed_token(std::string_view text) {
  // The message does not contain the text: it may be a token with a typing error.
  const auto token = token_from(text);
  if (!token) throw UsageError("invalid token: expected 32 hexadecimal digits");
  return *token;
}

Fence parsed_fence(std::string_view text) {
  const auto number = number_in<std::uint64_t>(text);
  if (!number || *number == 0 || *number > std::uint64_t{INT64_MAX}) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a fence: expected a whole number from 1 to " +
                     std::to_string(INT64_MAX));
  }
  return Fence{*number};
}

}  // namespace dlock
