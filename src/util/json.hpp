// JSON as dlock writes and reads it: keys in the order they were set.
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

// One line of text, which steers no terminal. Bytes that are no UTF-8 (a command's
// arguments may be any) become U+FFFD, since JSON has no other way to carry them.
std::string to_line(const Json& json);

// What is not there is null; durations are in milliseconds.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::optional<std::chrono::milliseconds>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

// What an object has under a key; what is missing, or of another kind than asked for,
// is empty. The texts read with these may be anybody's.
std::string text_at(const Json& object, const char* key);
std::vector<std::string> words_at(const Json& object, const char* key);

// From 0 to 2^53, beyond which not every reader of JSON has exact numbers.
std::optional<std::int64_t> count_at(const Json& object, const char* key);

// Whether it is `true`. What is there is not copied: a copy takes as much stack as the
// text is nested deep, and that can be as deep as somebody wants.
bool flag_at(const Json& object, const char* key);

// From 0 to 255.
std::optional<int> exit_code_at(const Json& object, const char* key);

// 0 if there is none.
pid_t pid_at(const Json& object, const char* key);

}  // namespace dlock
