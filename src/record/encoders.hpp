// The encoders of records: as JSON objects, as bytes in the order of this machine, for
// files that do not leave it, and as words of Redis scripts.
//
// The fields of a record are listed once for each place that keeps it, in the order of
// the text or of the bytes: a function that calls `visit(key, value)` for each of them,
// or `visit(value)` for bytes. With a writer as `visit` that list writes the record, with
// a reader it reads one.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lock/lease.hpp"
#include "rules/state.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::record {

// Whether a function that takes a reference to `T` is one for this record, const or not.
template <typename T, typename Record>
concept Of = std::same_as<std::remove_const_t<T>, Record>;

// How a value is written that has a special form.
enum Form {
  if_set,  // left out if it is what a record without it has: no text, 0, false. Other
           // missing values are null
  small,   // a number from -99 to 99, left out if it is 0
  date,    // a moment as RFC 3339, for people
  uid,     // a user's number in text, as a number; left out if the text is none
};

template <Form form, typename T>
struct As {
  T& value;
};
template <Form form, typename T>
As<form, T> as(T& value) {
  return {value};
}

class JsonWriter {
 public:
  explicit JsonWriter(JsonLine& line) : line_(line) {}

  void operator()(const char* key, const std::string& text) { line_.add_text(key, text); }
  void operator()(const char* key, const std::vector<std::string>& texts) {
    line_.add_texts(key, texts);
  }
  void operator()(const char* key, std::same_as<bool> auto flag) {
    line_.add_flag(key, flag);
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void operator()(const char* key, T number) { line_.add_number(key, number); }
  void operator()(const char* key, Fence fence) { line_.add_number(key, fence.number); }
  void operator()(const char* key, Mode mode) {
    line_.add_text(key, mode == Mode::shared ? "shared" : "exclusive");
  }
  template <typename Rep, typename Period>
  void operator()(const char* key, std::chrono::duration<Rep, Period> span) {
    line_.add_number(key, span.count());
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) {
    value ? (*this)(key, *value) : line_.add_null(key);
  }
  template <typename T>
  void operator()(const char* key, As<if_set, T> field) {
    if (field.value != std::remove_const_t<T>{}) (*this)(key, field.value);
  }
  void operator()(const char* key, As<small, const int> field) {
    if (field.value != 0) line_.add_number(key, field.value);
  }
  void operator()(const char* key, As<date, const WallTime> field);
  void operator()(const char* key, As<date, const std::optional<WallTime>> field) {
    field.value ? (*this)(key, as<date>(*field.value)) : line_.add_null(key);
  }
  void operator()(const char* key, As<uid, const std::string> field);

 private:
  JsonLine& line_;
};

// What the text lacks, or has in another type or out of range, gets no value: anyone may
// have written it.
class JsonReader {
 public:
  explicit JsonReader(const Json& json) : json_(json) {}

  void operator()(const char* key, std::string& text) { text = text_at(json_, key); }
  void operator()(const char* key, std::vector<std::string>& texts) {
    texts = words_at(json_, key);
  }
  void operator()(const char* key, bool& flag) { flag = flag_at(json_, key); }
  template <std::integral T>
  void operator()(const char* key, T& number) {
    const auto count = count_at(json_, key).value_or(0);
    number = std::cmp_less_equal(count, std::numeric_limits<T>::max())
                 ? static_cast<T>(count)
                 : T{};
  }
  void operator()(const char* key, Fence& fence) { (*this)(key, fence.number); }
  template <typename Rep, typename Period>
  void operator()(const char* key, std::chrono::duration<Rep, Period>& span) {
    span = std::chrono::duration<Rep, Period>(count_at(json_, key).value_or(0));
  }
  template <typename Rep, typename Period>
  void operator()(const char* key,
                  std::optional<std::chrono::duration<Rep, Period>>& span) {
    span.reset();
    if (const auto count = count_at(json_, key)) span.emplace(*count);
  }
  void operator()(const char* key, std::optional<int>& exit_code) {
    exit_code = exit_code_at(json_, key);
  }
  void operator()(const char* key, std::optional<std::string>& text) {
    text = text_at(json_, key);
    if (text->empty()) text.reset();
  }
  template <typename T>
  void operator()(const char* key, As<if_set, T> field) {
    (*this)(key, field.value);
  }
  void operator()(const char* key, As<small, int> field);
  void operator()(const char* key, As<date, WallTime> field);
  void operator()(const char* key, As<date, std::optional<WallTime>> field);
  void operator()(const char* key, As<uid, std::string> field);

 private:
  const Json& json_;
};

inline void JsonWriter::operator()(const char* key, As<date, const WallTime> field) {
  line_.add_text(key, rfc3339(field.value));
}

inline void JsonWriter::operator()(const char* key, As<uid, const std::string> field) {
  const auto number = number_in<std::uint32_t>(field.value);
  if (number) line_.add_number(key, *number);
}

inline void JsonReader::operator()(const char* key, As<small, int> field) {
  const auto found = json_.find(key);
  const bool is_number = found != json_.end() && found->is_number_integer();
  const auto number = is_number ? found->get<std::int64_t>() : 0;
  field.value = number >= -99 && number <= 99 ? static_cast<int>(number) : 0;
}

inline void JsonReader::operator()(const char* key,
                                   As<date, std::optional<WallTime>> field) {
  field.value = from_rfc3339(text_at(json_, key));
  if (field.value && !rules::is_possible(*field.value)) field.value.reset();
}

inline void JsonReader::operator()(const char* key, As<date, WallTime> field) {
  std::optional<WallTime> time;
  (*this)(key, as<date>(time));
  field.value = time.value_or(WallTime{});
}

inline void JsonReader::operator()(const char* key, As<uid, std::string> field) {
  const auto number = count_at(json_, key);
  field.value = number ? std::to_string(*number) : "";
}

// Its buffer grows seldom: a call of a string for each field would take longer than the
// field.
class ByteWriter {
 public:
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T value) { append(&value, sizeof value); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void operator()(const Token& token) { append(token.bytes.data(), token.bytes.size()); }
  void operator()(As<uid, const std::string> user) {
    (*this)(number_in<std::uint32_t>(user.value).value_or(0));
  }
  void operator()(Fence fence) { (*this)(fence.number); }
  void operator()(Mode mode) { (*this)(static_cast<std::uint8_t>(mode)); }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period> span) {
    (*this)(static_cast<std::int64_t>(span.count()));
  }
  void operator()(Clock::time_point moment) { (*this)(moment.time_since_epoch()); }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(static_cast<std::uint8_t>(value.has_value()));
    if (value) (*this)(*value);
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) (*this)(value);
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(const T& value) { fields_in_bytes(value, *this); }

  void append(const void* from, std::size_t size) {
    if (size > bytes_.size() - size_)
      bytes_.resize(2 * bytes_.size() + size + least_room);
    std::memcpy(bytes_.data() + size_, from, size);
    size_ += size;
  }

  // What was written so far, to be changed. The pointer is valid until more is written.
  std::size_t size() const { return size_; }
  char* data() { return bytes_.data(); }

  // Returns what was written, and begins anew.
  std::string take() {
    bytes_.resize(std::exchange(size_, 0));
    return std::exchange(bytes_, {});
  }

 private:
  static constexpr std::size_t least_room = 512;

  std::string bytes_;
  std::size_t size_ = 0;
};

// Thrown by a ByteReader for bytes that no ByteWriter has written.
struct Malformed {};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes)
      : next_(bytes.data()), left_(bytes.size()) {}

  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T& value) { std::memcpy(&value, take(sizeof value), sizeof value); }
  void operator()(bool& value) { value = number<std::uint8_t>() != 0; }
  void operator()(std::string& text) {
    const auto size = number<std::uint32_t>();
    text.assign(take(size), size);
  }
  void operator()(Token& token) {
    std::memcpy(token.bytes.data(), take(token.bytes.size()), token.bytes.size());
  }
  void operator()(As<uid, std::string> user) {
    user.value = std::to_string(number<std::uint32_t>());
  }
  void operator()(Fence& fence) { (*this)(fence.number); }
  void operator()(Mode& mode) {
    const auto value = number<std::uint8_t>();
    if (value > 1) throw Malformed{};
    mode = static_cast<Mode>(value);
  }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period>& span) {
    span = std::chrono::duration<Rep, Period>(number<std::int64_t>());
  }
  void operator()(Clock::time_point& moment) {
    moment = Clock::time_point(nanoseconds(number<std::int64_t>()));
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    value.reset();
    if (number<std::uint8_t>() != 0) (*this)(value.emplace());
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    // A file is mostly small; a list in it that is long grows as it is read.
    constexpr std::uint32_t usual = 20;
    const auto count = number<std::uint32_t>();
    check_count(count);
    values.clear();
    values.reserve(std::min(count, usual));
    for (std::uint32_t i = 0; i < count; ++i) (*this)(values.emplace_back());
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(T& value) { fields_in_bytes(value, *this); }

  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  // Throws unless so many elements, of at least so many bytes each, can follow: a forged
  // count must not exhaust memory.
  void check_count(std::uint64_t count, std::size_t least = 1) const {
    if (count > left_ / least) throw Malformed{};
  }

  bool at_end() const { return left_ == 0; }

 private:
  const char* take(std::size_t size) {
    if (size > left_) throw Malformed{};
    left_ -= size;
    return std::exchange(next_, next_ + size);
  }

  const char* next_;
  std::size_t left_;
};

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
