// The words of a record of the scripts, one after the other.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dlock::redis {

// Takes words off the front of a record.
class RecordWords {
 public:
  explicit RecordWords(std::string_view text) : text_(text) {}

  std::string_view next() {
    const auto end = std::min(text_.find(' '), text_.size());
    const auto word = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return word;
  }
  std::optional<std::int64_t> number() {
    const auto word = next();
    std::int64_t value = 0;
    const auto* last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, value);
    // No number in a script is beyond 2^53.
    const bool usable = error == std::errc() && end == last && value >= 0 &&
                        value <= (std::int64_t{1} << 53);
    return usable ? std::optional(value) : std::nullopt;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace dlock::redis
