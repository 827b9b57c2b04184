#include "store/local/limit_rules.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dlock::local {
namespace {

// A clock that was set back would keep every stamp for so much longer. Time has then
// stood still since the last one. (No hand sets the clock of a boot, but containers may
// have clocks of their own.)
void follow_clock(LimitState& state, Clock::time_point now) {
  if (state.stamps.empty() || state.stamps.back() <= now) return;
  const auto back = state.stamps.back() - now;
  for (auto& stamp : state.stamps) stamp -= back;
  for (auto& turn : state.turns) turn.at -= back;
}

void tidy(LimitState& state, Clock::time_point now) {
  follow_clock(state, now);
  const auto first_in_window =
      std::upper_bound(state.stamps.begin(), state.stamps.end(), now - state.rate.period);
  state.stamps.erase(state.stamps.begin(), first_in_window);
  std::erase_if(state.turns,
                [&](const Turn& turn) { return turn.at + turn_holds <= now; });
}

// Who waits behind one that is a period late has lost that turn to it, and loses no more.
// Who only asks lets everybody in line go first.
enum class WaitsFor { those_in_time, all };

// When one behind the first `place` of the line can be admitted, as far as is known.
Clock::time_point turn_behind(const LimitState& state, std::size_t place,
                              WaitsFor waits_for, Clock::time_point now) {
  std::vector<Clock::time_point> before;
  for (std::size_t i = 0; i < place; ++i) {
    const auto at = state.turns[i].at;
    if (waits_for == WaitsFor::all || at + state.rate.period > now) before.push_back(at);
  }
  const std::size_t most = state.rate.most;
  if (before.size() >= most) {
    // The one that has to be admitted a period before it.
    const auto at = before[before.size() - most];
    const auto turn = at + state.rate.period;
    return turn > now ? turn : at + turn_holds;
  }
  if (state.stamps.size() + before.size() < most) return now;
  return state.stamps[state.stamps.size() + before.size() - most] + state.rate.period;
}

// That of one who asks now, and would not wait.
Clock::time_point next_turn(const LimitState& state, Clock::time_point now) {
  return turn_behind(state, state.turns.size(), WaitsFor::all, now);
}

unsigned remaining(const LimitState& state) {
  const auto spoken_for = state.stamps.size() + state.turns.size();
  return spoken_for >= state.rate.most
             ? 0
             : state.rate.most - static_cast<unsigned>(spoken_for);
}

}  // namespace

RateAnswer admit(LimitState& state, const RateClaim& claim, Clock::time_point now) {
  tidy(state, now);
  if (state.rate != claim.rate) {
    if (!state.stamps.empty() || !state.turns.empty()) return RateDiffers{state.rate};
    state.rate = claim.rate;
  }
  const auto own =
      std::find_if(state.turns.begin(), state.turns.end(),
                   [&](const Turn& turn) { return turn.token == claim.token; });
  const bool queued = own != state.turns.end();
  const bool in_line = queued || claim.patience.count() > 0;
  const auto turn =
      turn_behind(state, static_cast<std::size_t>(own - state.turns.begin()),
                  in_line ? WaitsFor::those_in_time : WaitsFor::all, now);
  const auto until = [&](Clock::time_point moment) {
    return std::chrono::ceil<milliseconds>(moment - now);
  };
  if (turn <= now) {
    if (queued) state.turns.erase(own);
    state.stamps.push_back(now);
    return Admitted{remaining(state), until(next_turn(state, now))};
  }
  const bool waits = claim.patience.count() > 0 && turn - now <= claim.patience;
  if (waits && queued) {
    own->at = turn;
  } else if (waits) {
    state.turns.push_back({claim.token, turn});
  } else if (queued) {
    state.turns.erase(own);
  }
  return NotAdmitted{remaining(state), until(turn), waits};
}

bool withdraw(LimitState& state, const Token& token) {
  return std::erase_if(state.turns,
                       [&](const Turn& turn) { return turn.token == token; }) > 0;
}

bool is_out_of_use(const LimitState& state, Clock::time_point now) {
  auto later_state = state;
  tidy(later_state, now);
  return later_state.stamps.empty() && later_state.turns.empty();
}

namespace {

// What a state begins with. Then come the stamps, eight bytes each, and the turns.
struct Head {
  std::uint64_t most = 0;
  std::int64_t period = 0;
  std::uint64_t stamps = 0;
  std::uint64_t turns = 0;
};
static_assert(sizeof(Head) == 32 && sizeof(Turn) == 24);

// What one who writes honestly puts there, far from where sums of moments would overflow.
constexpr std::uint64_t greatest_rate = 10'000;
constexpr std::int64_t longest_period = 3'200'000'000'000;  // ms, 100 years
constexpr Clock::time_point last_moment{nanoseconds(std::int64_t{1} << 62)};

bool is_sound(Clock::time_point moment) {
  return moment >= Clock::time_point{} && moment <= last_moment;
}

template <typename T>
void append(std::string& bytes, const std::vector<T>& values) {
  if (values.empty()) return;
  const auto at = bytes.size();
  bytes.resize(at + values.size() * sizeof(T));
  std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> taken(std::string_view& bytes, std::size_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

}  // namespace

std::string encoded(const LimitState& state) {
  Head head;
  head.most = state.rate.most;
  head.period = state.rate.period.count();
  head.stamps = state.stamps.size();
  head.turns = state.turns.size();
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  append(bytes, state.stamps);
  append(bytes, state.turns);
  return bytes;
}

std::optional<LimitState> decoded_limit(std::string_view bytes) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head.most == 0 || head.most > greatest_rate || head.period <= 0 ||
      head.period > longest_period ||
      head.stamps > bytes.size() / sizeof(Clock::time_point)) {
    return std::nullopt;
  }
  LimitState state;
  state.rate.most = static_cast<unsigned>(head.most);
  state.rate.period = milliseconds(head.period);
  state.stamps = taken<Clock::time_point>(bytes, head.stamps);
  if (head.turns > bytes.size() / sizeof(Turn)) return std::nullopt;
  state.turns = taken<Turn>(bytes, head.turns);
  const bool is_possible =
      bytes.empty() && std::is_sorted(state.stamps.begin(), state.stamps.end()) &&
      std::all_of(state.stamps.begin(), state.stamps.end(), is_sound) &&
      std::all_of(state.turns.begin(), state.turns.end(),
                  [](const Turn& turn) { return is_sound(turn.at); });
  return is_possible ? std::optional(std::move(state)) : std::nullopt;
}

}  // namespace dlock::local
