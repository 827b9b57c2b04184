// Parses the values of options and operands.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock {

// Input that dlock does not accept: exit status 64, or 78 if it came from a configuration
// file. The message is one line.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message, bool from_file = false)
      : std::runtime_error(message), from_file_(from_file) {}
  bool from_file() const { return from_file_; }

 private:
  bool from_file_;
};

// "1h30m", "5min", "250ms", "0.5s", "30": rounded up to whole milliseconds. Units go from
// large to small, each at most once. Throws UsageError for anything else, and for more
// than 100 years.
milliseconds parsed_duration(std::string_view text);

// A whole number from `least` to `most`. Throws UsageError.
unsigned parsed_number(std::string_view text, unsigned least, unsigned most);

// "16MiB", "500KB", or plain bytes, up to 512MiB. Throws UsageError.
std::size_t parsed_size(std::string_view text);

// "5/800ms", "100/1m", "1/s": a number from 1 to 10,000, and a duration or just its unit.
// Throws UsageError.
Rate parsed_rate(std::string_view text);

// Text that a store keeps and shows to others: 1 to 255 bytes of printable UTF-8. `what`
// ("label") is named in the UsageError.
std::string parsed_text(const std::string& text, const std::string& what);
constexpr std::size_t longest_text = 255;

// The same for the name of a lock or a namespace.
std::string parsed_name(const std::string& text);

// 32 hexadecimal digits. Throws UsageError, whose message does not contain the text: it
// may be a token with a typing error.
Token parsed_token(std::string_view text);

// A fence as the user writes it: a whole number from 1 to 2^63-1. Throws UsageError.
Fence parsed_fence(std::string_view text);

}  // namespace dlock
