#include "store/redis/value_record.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "util/checksum.hpp"

namespace dlock::redis {
namespace {

// The limit of a string on the server.
constexpr std::int64_t largest = std::int64_t{512} << 20;

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::string sum_of(const std::string& bytes) { return checksum_text(checksum(bytes)); }

std::optional<ValueRecord> value_record_from(const Reply& fields, const Reply& left) {
  if (fields.kind != Reply::Kind::array ||
      fields.elements.size() != std::size(value_fields) ||
      left.kind != Reply::Kind::integer) {
    return std::nullopt;
  }
  const bool is_there =
      std::all_of(fields.elements.begin(), fields.elements.end(),
                  [](const Reply& field) { return field.kind == Reply::Kind::string; });
  if (!is_there || left.integer <= 0) return std::nullopt;
  const auto fence = whole_number(fields.elements[0].text);
  const auto size = whole_number(fields.elements[1].text);
  const auto stale = whole_number(fields.elements[3].text);
  if (!fence || !size || *size > largest || !stale) return std::nullopt;
  ValueRecord record;
  record.fence = fields.elements[0].text;
  record.size = static_cast<std::size_t>(*size);
  record.sum = fields.elements[2].text;
  record.data = fields.elements[4].text;
  record.is_fresh = left.integer > *stale;
  return record;
}

std::optional<ValueInfo> value_info_from(const Reply& fields, const Reply& left) {
  if (fields.kind != Reply::Kind::array ||
      fields.elements.size() != std::size(value_info_fields) ||
      left.kind != Reply::Kind::integer || left.integer <= 0) {
    return std::nullopt;
  }
  const auto size = whole_number(fields.elements[0].text);
  const auto stale = whole_number(fields.elements[1].text);
  const auto lives = whole_number(fields.elements[2].text);
  if (!size || *size > largest || !stale) return std::nullopt;
  ValueInfo info;
  info.size = static_cast<std::size_t>(*size);
  if (lives && *lives >= left.integer) info.age = milliseconds(*lives - left.integer);
  info.fresh_for = milliseconds(std::max<std::int64_t>(left.integer - *stale, 0));
  info.expires_in = milliseconds(left.integer);
  return info;
}

}  // namespace dlock::redis
