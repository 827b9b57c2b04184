#include "record/json_fields.hpp"

#include "rules/state.hpp"
#include "util/text.hpp"

namespace dlock::record {

void JsonWriter::operator()(const char* key, As<date, const WallTime> field) {
  line_.add_text(key, rfc3339(field.value));
}

void JsonWriter::operator()(const char* key, As<uid, const std::string> field) {
  const auto number = number_in<std::uint32_t>(field.value);
  if (number) line_.add_number(key, *number);
}

void JsonReader::operator()(const char* key, As<small, int> field) {
  const auto found = json_.find(key);
  const bool is_number = found != json_.end() && found->is_number_integer();
  const auto number = is_number ? found->get<std::int64_t>() : 0;
  field.value = number >= -99 && number <= 99 ? static_cast<int>(number) : 0;
}

void JsonReader::operator()(const char* key, As<date, std::optional<WallTime>> field) {
  field.value = from_rfc3339(text_at(json_, key));
  if (field.value && !rules::is_possible(*field.value)) field.value.reset();
}

void JsonReader::operator()(const char* key, As<date, WallTime> field) {
  std::optional<WallTime> time;
  (*this)(key, as<date>(time));
  field.value = time.value_or(WallTime{});
}

void JsonReader::operator()(const char* key, As<uid, std::string> field) {
  const auto number = count_at(json_, key);
  field.value = number ? std::to_string(*number) : "";
}

}  // namespace dlock::record
