// JSON as dlock reads and writes it, with keys in the order in which they were added.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

using Json = nlohmann::ordered_json;

// The JSON as one line of text, without terminal control characters. Bytes that are not
// UTF-8 (a command's arguments may be anything) become U+FFFD, because JSON cannot
// represent them.
std::string to_line(const Json& json);

// The limits of a text that others wrote. dlock's own records are nested two levels deep
// and have at most one element for each of the 4096 bytes of a command; a text is at
// most as long as an argument of a process.
struct JsonLimits {
  std::size_t bytes = 1u << 20;
  std::size_t depth = 16;
  std::size_t elements = 10'000;
};

// The object in a text that others wrote; nothing if it is not valid JSON, not an object,
// or beyond the limits. The only way to read JSON: the library copies and compares values
// recursively, so one that is nested deeply enough would exceed the stack.
std::optional<Json> object_from(std::string_view text, const JsonLimits& limits = {});

// Receives the values of a text one by one; each call returns false to stop.
using JsonEvents = nlohmann::json_sax<Json>;

// The same for a text of which no document is made, because that would take long: reports
// its values to `events`. Returns false if it is not valid JSON, beyond the limits, or if
// `events` has stopped; some of its values may have been reported then.
bool read_json(std::string_view text, JsonEvents& events, const JsonLimits& limits);

// Adds a string as to_line() writes it, or in ASCII. Bytes that are not UTF-8 become
// U+FFFD.
void append_json(std::string& json, std::string_view value, bool in_ascii);

// Adds the key, a plain word, of the next value to an object that is not closed yet; an
// empty text becomes one.
void append_json_key(std::string& json, std::string_view key);

// A missing value becomes null; durations are in milliseconds.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::optional<std::chrono::milliseconds>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

// An empty text becomes null.
inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The value of a key; empty if it is missing or of another type. The texts that are read
// with these functions may come from anyone.
std::string text_at(const Json& object, const char* key);
std::vector<std::string> words_at(const Json& object, const char* key);

// A number from 0 to 2^53, the limit up to which every JSON parser is exact.
std::optional<std::int64_t> count_at(const Json& object, const char* key);

// Whether the value is `true`.
bool flag_at(const Json& object, const char* key);

// From 0 to 255.
std::optional<int> exit_code_at(const Json& object, const char* key);

// 0 if there is none.
pid_t pid_at(const Json& object, const char* key);

}  // namespace dlock
