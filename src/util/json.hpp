// JSON as dlock reads and writes it, with keys in the order in which they were added.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dlock {

using Json = nlohmann::ordered_json;

// The JSON as one line of text, without terminal control characters. Bytes that are not
// UTF-8 (a command's arguments may be anything) become U+FFFD, because JSON cannot
// represent them.
std::string to_line(const Json& json);

// A missing value becomes null; durations are in milliseconds.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::optional<std::chrono::milliseconds>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

// The value of a key; empty if it is missing or of another type. The texts that are read
// with these functions may come from anybody.
std::string text_at(const Json& object, const char* key);
std::vector<std::string> words_at(const Json& object, const char* key);

// A number from 0 to 2^53, the limit up to which every JSON parser is exact.
std::optional<std::int64_t> count_at(const Json& object, const char* key);

// Whether the value is `true`. The value is not copied, because copying takes stack in
// proportion to its nesting, which may be arbitrarily deep.
bool flag_at(const Json& object, const char* key);

// From 0 to 255.
std::optional<int> exit_code_at(const Json& object, const char* key);

// 0 if there is none.
pid_t pid_at(const Json& object, const char* key);

}  // namespace dlock
