#include "util/json_line.hpp"

#include <algorithm>

#include "util/json.hpp"

namespace dlock {
namespace {

bool stands_for_itself(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

// The library escapes everything that is not plain.
void append_quoted(std::string& text, std::string_view value) {
  if (!std::all_of(value.begin(), value.end(), stands_for_itself)) {
    text += to_line(Json(value));
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

}  // namespace

void JsonLine::add_key(std::string_view key) {
  if (text_.empty()) text_.reserve(512);
  text_ += text_.empty() ? "{\"" : ",\"";
  text_ += key;
  text_ += "\":";
}

void JsonLine::add(std::string_view key, std::string_view json) {
  add_key(key);
  text_ += json;
}

void JsonLine::add_text(std::string_view key, std::string_view value) {
  add_key(key);
  append_quoted(text_, value);
}

void JsonLine::add_texts(std::string_view key, const std::vector<std::string>& values) {
  add(key, "[");
  for (const auto& value : values) {
    if (text_.back() != '[') text_ += ',';
    append_quoted(text_, value);
  }
  text_ += ']';
}

void JsonLine::add_flag(std::string_view key, bool value) {
  add(key, value ? "true" : "false");
}

}  // namespace dlock
