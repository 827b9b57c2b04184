// JSON as dlock writes and reads it: keys in the order they were set.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dlock {

using Json = nlohmann::ordered_json;

// One line of text. Bytes that are no UTF-8 (a command's arguments may be any)
// become U+FFFD, since JSON has no other way to carry them.
inline std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dlock
