// The encoders of records: as JSON objects, as bytes in the order of this machine, for
// files that do not leave it, and as words of Redis scripts.
//
// The fields of a record are listed once (record_fields.hpp), in the order of the text or
// of the bytes: a function that calls `visit(key, value, forms...)` for each of them. The
// forms say in which places the field stands, and how. With a writer for a place as
// `visit` that list writes the record, with a reader it reads one.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <iterator>
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

// Where a record is kept.
enum Place : unsigned {
  file = 1,         // the file of a lock of an embedded store, as bytes
  runs_log = 2,     // its log, `runs.jsonl`, which has the numbers of users
  news = 4,         // an event
  redis = 8,        // an argument or a reply of a script
  etcd_entry = 16,  // the entry of a holder or a waiter
  etcd_start = 32,  // a run in etcd that has not ended
  etcd = 64,        // another record in etcd
  row = 128,        // the state of a lock in a database
};

enum class Form { none, plain, if_set, small, date, uid };

template <Form as, unsigned in>
struct FormIn {
  static constexpr auto form = as;
  static constexpr auto places = in;
};
template <unsigned places>
constexpr FormIn<Form::plain, places> in{};
// Left out if it is what a record without it has: no text, 0, false. Other missing values
// are null, except in a row.
template <unsigned places>
constexpr FormIn<Form::if_set, places> if_set{};
// A number from -99 to 99, left out if it is 0.
template <unsigned places>
constexpr FormIn<Form::small, places> small{};
// A moment as RFC 3339, for people.
template <unsigned places>
constexpr FormIn<Form::date, places> date{};
// A user's number in text, as a number; left out of JSON if the text is none.
template <unsigned places>
constexpr FormIn<Form::uid, places> uid{};

// Plain if there are no forms: some fields are only in one place.
template <Place place, typename... Forms>
constexpr Form form_in = [] {
  auto form = sizeof...(Forms) == 0 ? Form::plain : Form::none;
  ((form = (Forms::places & place) != 0 ? Forms::form : form), ...);
  return form;
}();

template <typename T>
constexpr bool is_span = false;
template <typename Rep, typename Period>
constexpr bool is_span<std::chrono::duration<Rep, Period>> = true;
template <typename T>
constexpr bool is_list = false;
template <typename T>
constexpr bool is_list<std::vector<T>> = true;
template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;

// Writes the fields of an object, or values, as they are in `place`: in ASCII in a row.
template <Place place>
class JsonWriter {
 public:
  template <typename T, typename... Forms>
  void operator()(const char* key, const T& value, Forms...) {
    constexpr auto form = form_in<place, Forms...>;
    if constexpr (form == Form::uid) {
      const auto number = number_in<std::uint32_t>(value);
      if (number) add_key(key), add(*number);
    } else if constexpr (is_optional<T> && form != Form::none) {
      if (value) {
        (*this)(key, *value, FormIn < form == Form::date ? form : Form::plain,
                place > {});
      } else if (form != Form::if_set && place != row) {
        add_key(key), text_ += "null";
      }
    } else if constexpr (form == Form::date) {
      add_key(key), add(rfc3339(value));
    } else if constexpr (form != Form::none) {
      if (form == Form::plain || !(value == T{})) add_key(key), add(value);
    }
  }

  template <typename T>
  void add(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      char digits[24];
      const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
      text_.append(digits, end);
    } else if constexpr (is_span<T>) {
      add(static_cast<std::int64_t>(value.count()));
    } else if constexpr (std::same_as<T, Clock::time_point>) {
      add(std::chrono::floor<WallTime>(value.time_since_epoch()));
    } else if constexpr (std::same_as<T, Fence>) {
      add(value.number);
    } else if constexpr (std::same_as<T, Token>) {
      add(text_of(value));
    } else if constexpr (std::same_as<T, Mode>) {
      text_ += value == Mode::shared ? "\"shared\"" : "\"exclusive\"";
    } else if constexpr (std::same_as<T, std::string>) {
      append_json(text_, value, place == row);
    } else if constexpr (is_list<T>) {
      text_ += '[';
      for (const auto& element : value) {
        if (text_.back() != '[') text_ += ',';
        add(element);
      }
      text_ += ']';
    } else {
      text_ += '{';
      fields(value, *this);
      text_ += '}';
    }
  }

  std::string& text() { return text_; }
  // The object of the fields.
  std::string finished() const { return (text_.empty() ? "{" : text_) + "}"; }

 private:
  void add_key(const char* key) { append_json_key(text_, key); }

  std::string text_;
};

template <Place place, typename T>
std::string json_of(const T& value) {
  JsonWriter<place> writer;
  writer.add(value);
  return std::move(writer.text());
}

// Reads what a JsonWriter has written. What the object lacks, or has in another type or
// out of range, gets no value: anyone may have written it.
template <Place place>
class JsonReader {
 public:
  explicit JsonReader(const Json& json) : json_(json) {}

  template <typename T, typename... Forms>
  void operator()(const char* key, T& value, Forms...) {
    constexpr auto form = form_in<place, Forms...>;
    if constexpr (form == Form::small) {
      const auto found = json_.find(key);
      const bool is_number = found != json_.end() && found->is_number_integer();
      const auto number = is_number ? found->template get<std::int64_t>() : 0;
      value = number >= -99 && number <= 99 ? static_cast<int>(number) : 0;
    } else if constexpr (form == Form::date) {
      auto time = from_rfc3339(text_at(json_, key));
      if (time && !rules::is_possible(*time)) time.reset();
      if constexpr (is_optional<T>) {
        value = time;
      } else {
        value = time.value_or(T{});
      }
    } else if constexpr (form == Form::uid) {
      const auto number = count_at(json_, key);
      value = number ? std::to_string(*number) : "";
    } else if constexpr (form != Form::none) {
      read(key, value);
    }
  }

 private:
  void read(const char* key, std::string& text) { text = text_at(json_, key); }
  void read(const char* key, std::vector<std::string>& texts) {
    texts = words_at(json_, key);
  }
  void read(const char* key, bool& flag) { flag = flag_at(json_, key); }
  template <std::integral T>
  void read(const char* key, T& number) {
    const auto count = count_at(json_, key).value_or(0);
    number = std::cmp_less_equal(count, std::numeric_limits<T>::max())
                 ? static_cast<T>(count)
                 : T{};
  }
  void read(const char* key, Fence& fence) { read(key, fence.number); }
  template <typename Rep, typename Period>
  void read(const char* key, std::chrono::duration<Rep, Period>& span) {
    span = std::chrono::duration<Rep, Period>(count_at(json_, key).value_or(0));
  }
  template <typename Rep, typename Period>
  void read(const char* key, std::optional<std::chrono::duration<Rep, Period>>& span) {
    span.reset();
    if (const auto count = count_at(json_, key)) span.emplace(*count);
  }
  void read(const char* key, std::optional<int>& exit_code) {
    exit_code = exit_code_at(json_, key);
  }
  void read(const char* key, std::optional<std::string>& text) {
    text = text_at(json_, key);
    if (text->empty()) text.reset();
  }

  const Json& json_;
};

// Its buffer grows seldom: a call of a string for each field would take longer than the
// field.
class ByteWriter {
 public:
  template <typename T, typename... Forms>
  void operator()(const char* /*key*/, const T& value, Forms...) {
    constexpr auto form = form_in<file, Forms...>;
    if constexpr (form == Form::uid) {
      (*this)(number_in<std::uint32_t>(value).value_or(0));
    } else if constexpr (form != Form::none) {
      (*this)(value);
    }
  }
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T value) { append(&value, sizeof value); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void operator()(const Token& token) { append(token.bytes.data(), token.bytes.size()); }
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
  void operator()(const T& value) { fields(value, *this); }

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

  template <typename T, typename... Forms>
  void operator()(const char* /*key*/, T& value, Forms...) {
    constexpr auto form = form_in<file, Forms...>;
    if constexpr (form == Form::uid) {
      value = std::to_string(number<std::uint32_t>());
    } else if constexpr (form != Form::none) {
      (*this)(value);
    }
  }
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
  void operator()(T& value) { fields(value, *this); }

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
