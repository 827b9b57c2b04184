// What users write as values of options and operands.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lock/clock.hpp"
#include "lock/lease.hpp"

namespace dlock {

// A word of the user's that dlock cannot take: exit 64, or 78 where a configuration
// file said it. The message is one line.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message, bool from_file = false)
      : std::runtime_error(message), from_file_(from_file) {}
  bool from_file() const { return from_file_; }

 private:
  bool from_file_;
};

// "1h30m", "5min", "250ms", "0.5s", "30": rounded up to whole milliseconds. Units from
// large to small, each once. Throws UsageError for anything else, and for more than 100
// years.
milliseconds parsed_duration(std::string_view text);

// A whole number from `least` to `most`. Throws UsageError.
unsigned parsed_number(std::string_view text, unsigned least, unsigned most);

// "16MiB", "500KB", or plain bytes, up to 512MiB. Throws UsageError.
std::size_t parsed_size(std::string_view text);

// "5/800ms", "100/1m", "1/s": a number from 1 to 10,000, and a duration or only its unit.
// Throws UsageError.
Rate parsed_rate(std::string_view text);

// What a store keeps and others are shown: 1 to 255 bytes of printable UTF-8. `what` it
// is ("label") is told in the UsageError.
std::string parsed_text(const std::string& text, const std::string& what);
constexpr std::size_t longest_text = 255;

// The same for a name of a lock or namespace.
std::string parsed_name(const std::string& text);

// 32 hexadecimal digits. Throws UsageError, without the text: it may be a token but for
// a letter.
Token parsed_token(std::string_view text);

// A fence as a user gives it: a whole number from 1 to 2^63-1. Throws UsageError.
Fence parsed_fence(std::string_view text);

}  // namespace dlock
