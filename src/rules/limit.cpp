#include "rules/limit.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dlock::rules {
namespace {

// If the clock was set back, every stamp would count for that much longer. The stamps are
// therefore moved as if no time had passed since the last one. (The boot clock cannot be
// set, but containers may have other clocks.)
void follow_clock(LimitState& state, Clock::time_point now) {
  if (state.stamps.empty() || state.stamps.back() <= now) return;
  const auto back = state.stamps.back() - now;
  for (auto& stamp : state.stamps) stamp -= back;
  for (auto& turn : state.turns) turn.at -= back;
}

void tidy(LimitState& state, Clock::time_point now) {
  follow_clock(state, now);
  const auto first_in_window =
      std::ranges::upper_bound(state.stamps, now - state.rate.period);
  state.stamps.erase(state.stamps.begin(), first_in_window);
  std::erase_if(state.turns,
                [&](const Turn& turn) { return turn.at + turn_holds <= now; });
}

// A waiter behind a turn that is a period late has lost that turn's time, and loses no
// more. A client that only asks lets the whole queue go first.
enum class Behind { those_in_time, all };

// When a client behind the first `place` waiters can be admitted, as far as is known.
Clock::time_point turn_behind(const LimitState& state, std::size_t place, Behind behind,
                              Clock::time_point now) {
  std::vector<Clock::time_point> before;
  for (std::size_t i = 0; i < place; ++i) {
    const auto at = state.turns[i].at;
    if (behind == Behind::all || at + state.rate.period > now) before.push_back(at);
  }
  const std::size_t most = state.rate.most;
  if (before.size() >= most) {
    // The admission that has to be a period earlier.
    const auto at = before[before.size() - most];
    const auto turn = at + state.rate.period;
    return turn > now ? turn : at + turn_holds;
  }
  if (state.stamps.size() + before.size() < most) return now;
  return state.stamps[state.stamps.size() + before.size() - most] + state.rate.period;
}

// The turn of a newcomer.
Clock::time_point next_turn(const LimitState& state, Clock::time_point now) {
  return turn_behind(state, state.turns.size(), Behind::all, now);
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
  const auto own = std::ranges::find_if(
      state.turns, [&](const Turn& turn) { return turn.token == claim.token; });
  const bool queued = own != state.turns.end();
  const bool in_line = queued || claim.patience.count() > 0;
  const auto turn =
      turn_behind(state, static_cast<std::size_t>(own - state.turns.begin()),
                  in_line ? Behind::those_in_time : Behind::all, now);
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
    state.turns.push_back({claim.token, turn, claim.host, claim.pid});
  } else if (queued) {
    state.turns.erase(own);
  }
  return NotAdmitted{remaining(state), until(turn), waits};
}

bool withdraw(LimitState& state, const Token& token) {
  return std::erase_if(state.turns,
                       [&](const Turn& turn) { return turn.token == token; }) > 0;
}

LimitInfo look(LimitState state, Clock::time_point now) {
  tidy(state, now);
  LimitInfo info;
  if (state.stamps.empty() && state.turns.empty()) return info;
  const auto until = [&](Clock::time_point moment) {
    return std::chrono::ceil<milliseconds>(std::max(moment, now) - now);
  };
  info.rate = state.rate;
  info.remaining = remaining(state);
  info.next_in = until(next_turn(state, now));
  for (const auto& turn : state.turns) {
    info.waiters.push_back({turn.host, turn.pid, until(turn.at)});
  }
  return info;
}

bool is_out_of_use(const LimitState& state, Clock::time_point now) {
  auto later_state = state;
  tidy(later_state, now);
  return later_state.stamps.empty() && later_state.turns.empty();
}

}  // namespace dlock::rules
