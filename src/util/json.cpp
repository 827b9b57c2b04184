#include "util/json.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "util/text.hpp"

namespace dlock {
namespace {

// Whether a text is within the limits up to its first error, at which the parser stops.
bool is_within(const JsonLimits& limits, std::string_view text) {
  if (text.size() > limits.bytes) return false;
  std::size_t depth = 0;
  std::size_t elements = 0;
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      is_in_string = !is_in_string;
    } else if (is_in_string) {
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > limits.depth || ++elements > limits.elements) return false;
    } else if (c == ']' || c == '}') {
      if (depth > 0) --depth;
    } else if (c == ',' && ++elements > limits.elements) {
      return false;
    }
  }
  return true;
}

bool stands_for_itself(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

}  // namespace

std::optional<Json> object_from(std::string_view text, const JsonLimits& limits) {
  if (!is_within(limits, text)) return std::nullopt;
  auto json = Json::parse(text, nullptr, false);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

bool read_json(std::string_view text, JsonEvents& events, const JsonLimits& limits) {
  return is_within(limits, text) && Json::sax_parse(text, &events);
}

void append_json(std::string& json, std::string_view value, bool in_ascii) {
  if (std::ranges::all_of(value, stands_for_itself)) {
    json.append(1, '"').append(value).append(1, '"');
  } else {
    json += in_ascii ? Json(value).dump(-1, ' ', true, Json::error_handler_t::replace)
                     : to_line(Json(value));
  }
}

std::string to_line(const Json& json) {
  return printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> words_at(const Json& object, const char* key) {
  std::vector<std::string> words;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return words;
  for (const auto& word : *found) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

std::optional<std::int64_t> count_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  constexpr auto most = std::int64_t{1} << 53;
  return value < 0 || value > most ? std::nullopt : std::optional(value);
}

bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::optional<int> exit_code_at(const Json& object, const char* key) {
  const auto value = count_at(object, key);
  return value && *value <= 255 ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

pid_t pid_at(const Json& object, const char* key) {
  const auto value = count_at(object, key).value_or(0);
  return value <= std::numeric_limits<pid_t>::max() ? static_cast<pid_t>(value) : 0;
}

void append_json_key(std::string& json, std::string_view key) {
  if (json.empty()) json.reserve(512);
  json += json.empty() ? "{\"" : json.back() == '{' ? "\"" : ",\"";
  json += key;
  json += "\":";
}

}  // namespace dlock
