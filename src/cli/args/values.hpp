// Parses the values of options and operands.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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

// The unit of durations or sizes that people mean by a word: "m" by "minutes". Empty if
// it is none.
std::string_view unit_meant_by(std::string_view word);

// A duration, or "forever": max().
milliseconds parsed_patience(std::string_view text);

// Durations with a bound: more than zero, at most 30 days, for which stores keep a run,
// and at least as long as a lease can be.
milliseconds parsed_time_limit(std::string_view text);
milliseconds parsed_kept_time(std::string_view text);
milliseconds parsed_lease_length(std::string_view text);

// "true" or "false". Throws UsageError, as all of these functions do.
bool parsed_flag(std::string_view text);

// A whole number from `least` to `most`. Throws UsageError.
unsigned parsed_number(std::string_view text, unsigned least, unsigned most);

// "-20" to "19", as nice(1): the least is the most important. Throws UsageError.
int parsed_priority(std::string_view text);

// "16MiB", "500KB", or plain bytes, up to 512MiB. Throws UsageError.
std::size_t parsed_size(std::string_view text);

// "5/800ms", "100/1m", "1/s": a number from 1 to 10,000, and a duration or just its unit.
// Throws UsageError.
Rate parsed_rate(std::string_view text);

// Text that a store keeps and shows to others: 1 to 255 bytes of printable UTF-8. `what`
// ("name") is named in the UsageError.
std::string parsed_text(const std::string& text, const std::string& what);
constexpr std::size_t longest_text = 255;

// The same for the name of a lock or a namespace.
std::string parsed_name(const std::string& text);

// How many holders a lock can have at most.
constexpr unsigned most_slots = 100'000;

// A lock that a run holds besides the one that it is named after (--also).
struct AlsoLock {
  std::string name;
  unsigned slots = 1;
  bool has_slots = false;  // as in ClaimOptions
  bool shared = false;
};

// What separates the locks in the setting: no argument and no name can contain it.
constexpr char also_separator = '\0';

// "cache", "gpu:slots=4", "config:shared": names, each with options behind its last
// colon. A name that contains a colon ends with one more: "cache:KEY:". Up to 16 locks,
// each once. Throws UsageError.
std::vector<AlsoLock> parsed_also(const std::string& text);

// Not empty, and without a NUL if a file of that name is to be read.
std::string parsed_path(const std::string& text);
std::string parsed_file_name(const std::string& text);

// A command for the shell; it may be empty.
std::string parsed_shell_line(const std::string& text);

// The name of a user of a store, and one that a certificate can contain.
std::string parsed_user(const std::string& text);
std::string parsed_tls_name(const std::string& text);

// 32 hexadecimal digits. Throws UsageError, whose message does not contain the text: it
// may be a token with a typing error.
Token parsed_token(std::string_view text);

// A fence as the user writes it: a whole number from 1 to 2^63-1. Throws UsageError.
Fence parsed_fence(std::string_view text);

}  // namespace dlock
