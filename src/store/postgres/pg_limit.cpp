#include "store/postgres/pg_limit.hpp"

#include <algorithm>
#include <utility>

#include "record/encoders.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

using std::chrono::microseconds;

// Two tokens hardly ever begin with the same 48 bits, and then a claim counts as admitted
// that was not yet: fewer than the limit are admitted.
constexpr std::size_t digits_kept = 12;

// The limits of the command line.
constexpr std::int64_t greatest_rate = 10'000;
constexpr std::int64_t greatest_time = std::int64_t{1} << 53;

std::string beginning_of(const Token& token) {
  return text_of(token).substr(0, digits_kept);
}

Clock::time_point moment_at(WallTime time) { return Clock::time_point(time); }

std::int64_t micros(Clock::time_point moment) {
  return std::chrono::duration_cast<microseconds>(moment.time_since_epoch()).count();
}

std::optional<std::int64_t> time_in(std::string_view text) {
  const auto time = number_in<std::int64_t>(text);
  return time && *time >= 0 && *time <= greatest_time ? time : std::nullopt;
}

// "MOMENT TOKEN PID HOST"
std::string turn_text(const rules::Turn& turn) {
  return std::to_string(micros(turn.at)) + " " + text_of(turn.token) + " " +
         std::to_string(turn.pid) + " " + percent_encoded(turn.host);
}
std::optional<rules::Turn> turn_from(const std::string& text) {
  record::RecordWords words(text);
  const auto at = time_in(words.next());
  const auto token = token_from(words.next());
  if (!at || !token) return std::nullopt;
  rules::Turn turn{*token, moment_at(WallTime(*at))};
  words(turn.pid);
  auto host = percent_decoded(words.rest());
  if (!words.is_usable() || !host) return std::nullopt;
  turn.host = std::move(*host);
  return turn;
}

}  // namespace

bool PgLimit::is_admitted(const Token& token, WallTime now) const {
  const auto found = std::find(admitted_.rbegin(), admitted_.rend(), beginning_of(token));
  if (found == admitted_.rend()) return false;
  const auto behind = static_cast<std::size_t>(found - admitted_.rbegin());
  const auto stamp = state_.stamps[state_.stamps.size() - 1 - behind];
  return stamp + state_.rate.period > moment_at(now);
}

std::optional<Clock::time_point> PgLimit::turn_of(const Token& token) const {
  for (const auto& turn : state_.turns) {
    if (turn.token == token) return turn.at;
  }
  return std::nullopt;
}

RateAnswer PgLimit::admit(const RateClaim& claim, WallTime now, bool& has_changed) {
  if (is_admitted(claim.token, now)) {
    has_changed = false;  // the answer was lost
    const auto info = rules::look(state_, moment_at(now));
    return Admitted{info.remaining, info.next_in};
  }
  const auto turn_before = turn_of(claim.token);
  auto answer = rules::admit(state_, claim, moment_at(now));
  const bool admits = std::holds_alternative<Admitted>(answer);
  // The rule has dropped the first ones.
  const auto former = state_.stamps.size() - (admits ? 1 : 0);
  admitted_.erase(admitted_.begin(),
                  admitted_.end() - static_cast<std::ptrdiff_t>(former));
  if (admits) admitted_.push_back(beginning_of(claim.token));
  has_changed = admits || turn_of(claim.token) != turn_before;
  return answer;
}

WallTime PgLimit::matters_until(WallTime now) const {
  auto last = moment_at(now);
  if (!state_.stamps.empty()) last = std::max(last, state_.stamps.back());
  for (const auto& turn : state_.turns) last = std::max(last, turn.at);
  constexpr milliseconds allowance{60'000};
  return WallTime(micros(later(last, state_.rate.period + allowance)));
}

std::string PgLimit::text() const {
  std::vector<std::string> turns;
  for (const auto& turn : state_.turns) turns.push_back(turn_text(turn));
  record::JsonWriter<record::row> line;
  line("most", state_.rate.most);
  line("period_ms", state_.rate.period);
  line("turns", turns);
  auto text = line.finished() + '\n';
  constexpr std::size_t usual_length = 24;
  text.reserve(text.size() + state_.stamps.size() * usual_length);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < state_.stamps.size(); ++i) {
    const auto at = micros(state_.stamps[i]);
    text += std::to_string(at - before);
    text += ':';
    text += admitted_[i];
    text += ' ';
    before = at;
  }
  return text;
}

// Of "MICROSECONDS:TOKEN ", each counted from the one before.
bool PgLimit::take_admissions(std::string_view text) {
  std::int64_t at = 0;
  while (!text.empty()) {
    const auto since = take_number<std::int64_t>(text);
    const bool is_possible = since && *since >= 0 && *since <= greatest_time - at;
    const auto end = text.find(' ');
    if (!is_possible || !text.starts_with(':') || end == std::string_view::npos) {
      return false;
    }
    at += *since;
    state_.stamps.push_back(moment_at(WallTime(at)));
    admitted_.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
  }
  return true;
}

std::optional<PgLimit> PgLimit::from(std::string_view text) {
  constexpr JsonLimits limits{16u << 20, 16, 1'000'000};
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto json = object_from(text.substr(0, end), limits);
  if (!json) return std::nullopt;
  const auto most = count_at(*json, "most");
  const auto period = count_at(*json, "period_ms");
  if (!most || !period || *most > greatest_rate) return std::nullopt;
  PgLimit limit;
  limit.state_.rate = {static_cast<unsigned>(*most), milliseconds(*period)};
  if (!limit.take_admissions(text.substr(end + 1))) return std::nullopt;
  for (const auto& word : words_at(*json, "turns")) {
    auto turn = turn_from(word);
    if (!turn) return std::nullopt;
    limit.state_.turns.push_back(std::move(*turn));
  }
  return limit;
}

}  // namespace dlock::postgres
