#include "record/json_fields.hpp"

#include "rules/state.hpp"
#include "util/text.hpp"

namespace dlock::record {

void JsonWriter::operator()(const char* key, AsDate<const WallTime> field) {
  line_.add_text(key, rfc3339(field.value));
}

void JsonWriter::operator()(const char* key, AsUid<const std::string> field) {
  if (const auto uid = number_in<std::uint32_t>(field.value)) line_.add_number(key, *uid);
}

void JsonReader::operator()(const char* key, AsDate<std::optional<WallTime>> field) {
  field.value = from_rfc3339(text_at(json_, key));
  if (field.value && !rules::is_possible(*field.value)) field.value.reset();
}

void JsonReader::operator()(const char* key, AsDate<WallTime> field) {
  std::optional<WallTime> time;
  (*this)(key, as_date(time));
  field.value = time.value_or(WallTime{});
}

void JsonReader::operator()(const char* key, AsUid<std::string> field) {
  const auto uid = count_at(json_, key);
  field.value = uid ? std::to_string(*uid) : "";
}

}  // namespace dlock::record
