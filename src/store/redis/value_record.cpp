#include "store/redis/value_record.hpp"

#include <algorithm>
#include <iterator>

#include "util/checksum.hpp"
#include "util/number.hpp"

namespace dlock::redis {
namespace {

// The limit of a string on the server.
constexpr std::int64_t largest = std::int64_t{512} << 20;

std::optional<std::int64_t> count_in(const std::string& text) {
  const auto number = dlock::number_in<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
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
  const auto fence = count_in(fields.elements[0].text);
  const auto size = count_in(fields.elements[1].text);
  const auto stale = count_in(fields.elements[3].text);
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
  const auto size = count_in(fields.elements[0].text);
  const auto stale = count_in(fields.elements[1].text);
  const auto lives = count_in(fields.elements[2].text);
  if (!size || *size > largest || !stale) return std::nullopt;
  ValueInfo info;
  info.size = static_cast<std::size_t>(*size);
  if (lives && *lives >= left.integer) info.age = milliseconds(*lives - left.integer);
  info.fresh_for = milliseconds(std::max<std::int64_t>(left.integer - *stale, 0));
  info.expires_in = milliseconds(left.integer);
  return info;
}

}  // namespace dlock::redis
