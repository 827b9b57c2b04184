#include "util/text.hpp"

#include <algorithm>
#include <cstdio>

#include "util/utf8.hpp"

namespace dlock {
namespace {

using std::chrono::nanoseconds;

bool steers_terminals(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200E && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x061C ||
         c == 0xFEFF;
}

std::string escaped(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(byte));
    out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : hex;
  }
  return out;
}

bool needs_quotes(std::string_view argument) {
  return argument.empty() || !std::ranges::all_of(argument, [](char c) {
           return static_cast<unsigned char>(c) >= 0x80 ||
                  are_alphanumeric_or({&c, 1}, "-_./@:=,+%");
         });
}

}  // namespace

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool are_alphanumeric_or(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [&](char c) {
    return is_alphanumeric(c) || others.find(c) != std::string_view::npos;
  });
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (auto& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (!take_character(text).is_valid()) return false;
  }
  return true;
}

bool is_printable_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto next = take_character(text);
    if (!next.is_valid() || steers_terminals(next.code_point)) return false;
  }
  return true;
}

std::string without_secret(std::string_view text, std::string_view secret) {
  constexpr std::size_t telling = 6;
  constexpr std::size_t longest_word = 15;
  const bool is_word =
      secret.size() <= telling ||
      (secret.size() <= longest_word &&
       std::ranges::all_of(secret, [](char c) { return c >= 'a' && c <= 'z'; }));
  const auto is_quote = [&](std::size_t at) {
    return std::string_view("'\"`").find(text[at]) != std::string_view::npos;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    const auto end =
        std::mismatch(rest.begin(), rest.end(), secret.begin(), secret.end());
    const auto same = static_cast<std::size_t>(end.first - rest.begin());
    const bool is_whole = same > 0 && same == secret.size();
    const bool is_quoted = at > 0 && is_quote(at - 1);
    const bool is_end = same == rest.size() || is_quote(at + same);
    const bool tells = is_whole || same >= telling;
    if (is_word && tells && is_quoted && is_end) {
      return "a text that is not shown, as it quotes the password";
    }
    const bool is_secret = !is_word && (is_whole || (is_quoted && tells));
    out += is_secret ? std::string_view("***") : rest.substr(0, 1);
    at += is_secret ? same : 1;
  }
  return out;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) return out + "...";
    const auto next = take_character(text);
    if (!next.is_valid() || steers_terminals(next.code_point)) {
      out += escaped(next.text);
    } else {
      out += next.text == "\\" ? "\\\\" : next.text;
    }
  }
  return out;
}

std::string unfit_in_name(std::string_view text) {
  const auto whole = text;
  while (!text.empty()) {
    const auto next = take_character(text);
    if (!next.is_valid()) return "byte " + escaped(next.text) + " is not UTF-8";
    const auto sight = sight_of(next.code_point);
    const bool is_first = next.text.data() == whole.data();
    char name[16];
    std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(next.code_point));
    if (sight == Sight::hidden || steers_terminals(next.code_point)) {
      return std::string(name) + " cannot be seen";
    }
    if (sight == Sight::blank && (is_first || text.empty())) {
      return std::string(name) + " is a blank at " +
             (is_first ? "the beginning" : "the end");
    }
  }
  return "";
}

std::string printable_name(std::string_view name) {
  constexpr std::size_t most = 255;
  std::string out;
  std::uint32_t before = 0;
  const auto whole = name;
  while (!name.empty()) {
    if (out.size() >= most) return out + "...";
    const auto next = take_character(name);
    const auto sight = next.is_valid() ? sight_of(next.code_point) : Sight::hidden;
    const bool is_inner_space =
        next.text == " " && next.text.data() != whole.data() && !name.empty();
    const auto after = name.empty() ? 0 : first_character(name).code_point;
    const bool is_hidden = sight == Sight::hidden ||
                           (sight == Sight::blank && !is_inner_space) ||
                           is_look_alike(before, next.code_point, after);
    out += is_hidden ? escaped(next.text) : printable(next.text);
    before = next.code_point;
  }
  return out;
}

std::string safe_host(std::string_view host) {
  constexpr std::size_t longest = 255;
  std::string safe(host.substr(0, longest));
  for (auto& c : safe) {
    const auto* marks = &c == &safe[0] ? "._:" : "._:-";
    if (!are_alphanumeric_or({&c, 1}, marks)) c = '_';
  }
  return safe;
}

std::string printable_json(std::string json) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x7F; };
  if (std::ranges::all_of(json, is_plain)) return json;
  std::string out;
  for (std::string_view rest(json); !rest.empty();) {
    const auto next = take_character(rest);
    if (next.code_point >= 0x7F && steers_terminals(next.code_point)) {
      char text[16];
      std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(next.code_point));
      out += text;
    } else {
      out += next.text;
    }
  }
  return out;
}

std::string printable_command(const std::vector<std::string>& argv, std::size_t most) {
  std::string out;
  for (const auto& argument : argv) {
    if (!out.empty()) out += ' ';
    if (out.size() >= most) return out + "...";
    const auto room = most - out.size();
    if (needs_quotes(argument)) {
      out += "'" + printable(argument, room) + "'";
    } else {
      out += printable(argument, room);
    }
  }
  return out;
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string percent_encoded(std::string_view text, std::string_view plain) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (are_alphanumeric_or({&c, 1}, plain)) {
      out += c;
    } else {
      out += {'%', digits[byte >> 4u], digits[byte & 15u]};
    }
  }
  return out;
}

Unescaped percent_unescaped(std::string_view text) {
  Unescaped out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint8_t byte = 0;
    if (text[i] != '%') {
      out.text += text[i];
    } else if (from_hex(text.substr(i + 1, 2), &byte, 1)) {
      out.text += static_cast<char>(byte);
      i += 2;
    } else {
      out.text += '%';
      out.is_valid = false;
    }
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  auto decoded = percent_unescaped(text);
  // Each text has only one encoding.
  if (!decoded.is_valid || percent_encoded(decoded.text) != text) return std::nullopt;
  return std::move(decoded.text);
}

std::string hex(const std::uint8_t* bytes, std::size_t size) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4u];
    text += digits[bytes[i] & 15u];
  }
  return text;
}

bool from_hex(std::string_view text, std::uint8_t* bytes, std::size_t size) {
  if (text.size() != 2 * size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    const char* pair = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(pair, pair + 2, bytes[i], 16);
    if (error != std::errc() || end != pair + 2) return false;
  }
  return true;
}

std::string counted(std::int64_t count, const std::string& word) {
  return joined(count, " ", word, count == 1 ? "" : "s");
}

std::string listed(const std::vector<std::string>& words, std::size_t most) {
  std::string list;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) {
    list += (i > 0 ? ", " : "") + words[i];
  }
  return words.size() > most ? joined(list, ", ", words.size() - most, " more") : list;
}

std::string shown_size(std::uint64_t bytes) {
  if (bytes >= 1u << 30) return joined(bytes >> 30, " GiB");
  if (bytes >= 1u << 20) return joined(bytes >> 20, " MiB");
  return joined(bytes >> 10, " KiB");
}

std::string for_people(nanoseconds duration) {
  using namespace std::chrono;
  char text[32];
  const auto print = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, static_cast<long long>(values)...);
    return std::string(text);
  };
  const auto ms = duration_cast<milliseconds>(duration).count();
  if (ms < 0) return "0ms";
  if (ms < 1000) return print("%lldms", ms);
  if (ms < 10'000) return print("%lld.%llds", ms / 1000, ms / 100 % 10);
  const auto seconds = ms / 1000;
  if (seconds < 60) return print("%llds", seconds);
  if (seconds < 3600) return print("%lldm%llds", seconds / 60, seconds % 60);
  if (seconds < 86'400) return print("%lldh%lldm", seconds / 3600, seconds / 60 % 60);
  return print("%lldd%lldh", seconds / 86'400, seconds / 3600 % 24);
}

// Uses the calendar of <chrono>, because gmtime() reads the time zone file first for
// nothing; and not snprintf(), because every run formats three of these.
std::string rfc3339(std::chrono::microseconds since_epoch) {
  const std::chrono::sys_time<std::chrono::microseconds> moment(since_epoch);
  const auto midnight = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day day(midnight);
  const std::chrono::hh_mm_ss time(
      std::chrono::floor<std::chrono::milliseconds>(moment - midnight));
  std::string text;
  const auto add = [&](long value, std::size_t width, const char* mark) {
    const auto digits = std::to_string(value);
    text.append(width - std::min(width, digits.size()), '0').append(digits).append(mark);
  };
  add(static_cast<int>(day.year()), 4, "-");
  add(static_cast<unsigned>(day.month()), 2, "-");
  add(static_cast<unsigned>(day.day()), 2, "T");
  add(time.hours().count(), 2, ":");
  add(time.minutes().count(), 2, ":");
  add(time.seconds().count(), 2, ".");
  add(time.subseconds().count(), 3, "Z");
  return text;
}

std::optional<std::chrono::microseconds> from_rfc3339(std::string_view text) {
  int year = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0;
  unsigned month = 0, day = 0;
  int used = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%3dZ%n", &year, &month, &day,
                  &hours, &minutes, &seconds, &milliseconds, &used) != 7 ||
      static_cast<std::size_t>(used) != text.size()) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{
      std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  const std::chrono::microseconds moment =
      std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hours) +
      std::chrono::minutes(minutes) + std::chrono::seconds(seconds) +
      std::chrono::milliseconds(milliseconds);
  // Rejects dates that rfc3339() would not have written, such as the 31st of June.
  if (rfc3339(moment) != text) return std::nullopt;
  return moment;
}

}  // namespace dlock
