// One JSON object, written directly as text, for what every run writes. The text is the
// same as that of a Json with the same content, for a tenth of the instructions: as a
// tree, the two lines that a run writes into its log took a quarter of all instructions
// that it executed.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

// Keys are plain words. Values may be anything; bytes that are not UTF-8 become U+FFFD as
// with to_line().
class JsonLine {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, const std::vector<std::string>& values);
  void add_flag(std::string_view key, bool value);
  template <std::integral T>
  void add_number(std::string_view key, T value) {
    add(key, std::to_string(value));
  }
  void add_object(std::string_view key, const JsonLine& object) {
    add(key, object.finished());
  }
  void add_null(std::string_view key) { add(key, "null"); }

  // The object without its closing brace, so that a field can be appended.
  const std::string& unfinished() const { return text_; }
  std::string finished() const { return (text_.empty() ? "{" : text_) + "}"; }

 private:
  void add_key(std::string_view key);
  void add(std::string_view key, std::string_view json);

  std::string text_;
};

}  // namespace dlock
