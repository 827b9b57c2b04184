// Validates, escapes and encodes text from outside, and finds numbers in it.
#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dlock {

// Whether `text` is valid UTF-8.
bool is_utf8(std::string_view text);

// In ASCII, whatever the locale is.
bool is_alphanumeric(char c);
bool are_alphanumeric_or(std::string_view text, std::string_view others);
std::string lower_case(std::string_view text);

// The parts of `text` between these separators: one, if there is none.
std::vector<std::string_view> split(std::string_view text, char separator);

// The text with each `from` in it replaced. `from` is not empty.
std::string replaced(std::string text, std::string_view from, std::string_view to);

// What a server said, with "***" in place of a secret that it was sent: some quote what
// they do not understand, perhaps only the beginning. A secret that may be a word of the
// server's own would be told by "***": it stays, unless it is in quotes; then nothing of
// the text is returned.
std::string without_secret(std::string_view text, std::string_view secret);

// Whether `text` is valid UTF-8 without control characters (C0, DEL, C1) and
// without the invisible characters that reorder or hide text (bidirectional
// controls, line and paragraph separators).
bool is_printable_utf8(std::string_view text);

// `text` with everything that is not printable as above written as \n, \t, \\ or \xNN, so
// that no name, host or command can control a terminal or forge a log line. Cut after
// `most` bytes, with "..." in place of the rest.
std::string printable(std::string_view text, std::size_t most = 1024);

// The first thing that makes `text` no name that people can tell from others, for a
// message: a blank at either end, a character that cannot be seen, or bytes that are not
// UTF-8. Empty if there is none.
std::string unfit_in_name(std::string_view text);

// A name for display: as printable(), with these characters escaped as well, and with
// those that readers take for others (é in two characters, a Cyrillic letter in a Latin
// word, a blank of another width).
std::string printable_name(std::string_view name);

// The name of a host that another party chose, for a script that may pass it on to a
// program such as ssh: letters, digits and -._: with "_" in place of every other byte and
// of a leading "-", cut after 255 bytes. Real names of hosts do not change.
std::string safe_host(std::string_view host);

// JSON with the same characters written as \uXXXX. They can only occur in strings, where
// that means the same; those below U+0020 are escaped in any JSON.
std::string printable_json(std::string json);

// A command for display: arguments made printable, quoted where a shell would need it,
// cut after `most` bytes.
std::string printable_command(const std::vector<std::string>& argv,
                              std::size_t most = 60);

// `text` as one word for a shell, whatever it contains except NUL: 'it'\''s'.
std::string shell_quoted(std::string_view text);

// Reversible: letters, digits and the characters of `plain` stay as they are, every other
// byte becomes %XX. With the default, the encoded text thus contains no spaces, braces or
// equals signs, and no hash tags.
constexpr std::string_view plain_in_keys = "-_./@:";
std::string percent_encoded(std::string_view text,
                            std::string_view plain = plain_in_keys);

// The inverse; nothing if `text` is not what percent_encoded would have written.
std::optional<std::string> percent_decoded(std::string_view text);

// `text` with the byte for each %XX; `is_valid` is false if a % without two digits behind
// it, which stays, is in it.
struct Unescaped {
  std::string text;
  bool is_valid = true;
};
Unescaped percent_unescaped(std::string_view text);

// Bytes as pairs of hexadecimal digits, and back: false unless `text` is exactly that
// many pairs.
std::string hex(const std::uint8_t* bytes, std::size_t size);
bool from_hex(std::string_view text, std::uint8_t* bytes, std::size_t size);

// The parts in a row, numbers as digits.
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&](const auto& part) {
    if constexpr (requires { std::to_string(part); }) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

// "1 lock", "2 locks"
std::string counted(std::int64_t count, const std::string& word);

// "a, b"; of more than `most`: "a, b, 3 more".
std::string listed(const std::vector<std::string>& words, std::size_t most = 1000);

// "3 KiB", "16 MiB", "2 GiB", for people: what is less than one is left out.
std::string shown_size(std::uint64_t bytes);

// "250ms", "3.2s", "3m12s", "2h5m", "4d3h": the two largest units, for people.
std::string for_people(std::chrono::nanoseconds duration);

// A moment since the epoch as RFC 3339 in UTC with milliseconds.
std::string rfc3339(std::chrono::microseconds since_epoch);

// The inverse of rfc3339(); nothing if `text` is not of that form.
std::optional<std::chrono::microseconds> from_rfc3339(std::string_view text);

// Removes the digits in front of `text`, and for a signed type a minus before them;
// returns their number. Nothing, and `text` is unchanged, if there is none or if it does
// not fit.
template <std::integral Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// The number in decimal, in `room`, which has to suffice. Allocates nothing.
template <std::integral Number>
std::string_view decimal(Number number, std::span<char> room) {
  const auto* end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return {room.data(), static_cast<std::size_t>(end - room.data())};
}

// The number that all of `text` is.
template <std::integral Number>
std::optional<Number> number_in(std::string_view text) {
  const auto number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace dlock
