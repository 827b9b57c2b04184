// Records of Redis scripts: words, and then mostly JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <utility>

#include "lock/lease.hpp"
#include "util/text.hpp"

namespace dlock::record {

// Takes words off the front of a record. A word that is missing or not what it has to be
// makes the record unusable, and its value stays as it is.
class RecordWords {
 public:
  explicit RecordWords(std::string_view text) : text_(text) {}

  template <std::integral T>
  void operator()(T& number) {
    // No number in a script is beyond 2^53.
    constexpr auto greatest = std::int64_t{1} << 53;
    const auto value = number_in<T>(next());
    if (value && std::cmp_greater_equal(*value, 0) &&
        std::cmp_less_equal(*value, greatest)) {
      number = *value;
    } else {
      is_usable_ = false;
    }
  }
  void operator()(Fence& fence) { (*this)(fence.number); }
  void operator()(Mode& mode) {
    const auto word = next();
    mode = word == "s" ? Mode::shared : Mode::exclusive;
    if (word != "s" && word != "x") is_usable_ = false;
  }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period>& span) {
    auto count = span.count();
    (*this)(count);
    span = std::chrono::duration<Rep, Period>(count);
  }

  std::string_view next() {
    const auto end = std::min(text_.find(' '), text_.size());
    const auto word = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return word;
  }

  bool is_usable() const { return is_usable_; }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
  bool is_usable_ = true;
};

}  // namespace dlock::record
