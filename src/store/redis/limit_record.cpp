#include "store/redis/limit_record.hpp"

#include <algorithm>
#include <iterator>

#include "record/record_words.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// Far from where sums of times would overflow.
constexpr std::int64_t greatest = std::int64_t{1} << 53;

std::optional<Clock::time_point> moment_from(const Reply& reply) {
  const auto at = dlock::number_in<std::int64_t>(reply.text);
  if (!at || *at < 0 || *at > greatest) return std::nullopt;
  return Clock::time_point(std::chrono::microseconds(*at));
}

// "TOKEN PID HOST"
std::optional<rules::Turn> turn_from(const std::string& member, const Reply& at) {
  const auto moment = moment_from(at);
  record::RecordWords words(member);
  const auto token = token_from(words.next());
  if (!moment || !token) return std::nullopt;
  rules::Turn turn{*token, *moment};
  // Older versions of dlock have written only the token.
  if (words.rest().empty()) return turn;
  words(turn.pid);
  const auto host = percent_decoded(words.rest());
  if (!words.is_usable() || !host) return std::nullopt;
  turn.host = *host;
  return turn;
}

// The limit of a string on the server.
constexpr std::int64_t largest = std::int64_t{512} << 20;

std::optional<std::int64_t> count_in(const std::string& text) {
  const auto number = dlock::number_in<std::int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::string member_of(const RateClaim& claim) {
  return text_of(claim.token) + " " + std::to_string(claim.pid) + " " +
         percent_encoded(claim.host);
}

std::optional<KeptLimit> kept_limit_from(const Reply& reply) {
  const auto& parts = reply.elements;
  constexpr std::int64_t most = 10'000;  // the limit of the command line
  if (reply.kind != Reply::Kind::array || parts.size() != 5 ||
      parts[1].kind != Reply::Kind::integer || parts[2].kind != Reply::Kind::integer ||
      parts[1].integer < 0 || parts[1].integer > most || parts[2].integer < 0 ||
      parts[2].integer > greatest || parts[4].elements.size() % 2 != 0) {
    return std::nullopt;
  }
  const auto now = moment_from(parts[0]);
  if (!now) return std::nullopt;
  KeptLimit kept;
  kept.now = *now;
  kept.state.rate = {static_cast<unsigned>(parts[1].integer),
                     milliseconds(parts[2].integer)};
  for (const auto& stamp : parts[3].elements) {
    const auto moment = moment_from(stamp);
    if (!moment) return std::nullopt;
    kept.state.stamps.push_back(*moment);
  }
  if (!std::is_sorted(kept.state.stamps.begin(), kept.state.stamps.end())) {
    return std::nullopt;
  }
  const auto& turns = parts[4].elements;
  for (std::size_t i = 0; i < turns.size(); i += 2) {
    auto turn = turn_from(turns[i].text, turns[i + 1]);
    if (!turn) return std::nullopt;
    kept.state.turns.push_back(std::move(*turn));
  }
  return kept;
}

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
