#include "store/redis/limit_record.hpp"

#include <algorithm>

#include "record/record_words.hpp"
#include "util/number.hpp"
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

}  // namespace dlock::redis
