// Records as JSON objects.
//
// The fields of a record are listed once for each place that keeps it: a function that
// calls `visit(key, value)` for each of them, in the order of the text. With a JsonWriter
// as `visit` that list writes the object, with a JsonReader it reads one.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lock/lease.hpp"
#include "util/json.hpp"

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

}  // namespace dlock::record
