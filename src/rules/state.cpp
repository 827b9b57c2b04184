#include "rules/state.hpp"

#include <algorithm>

#include "lock/history.hpp"

namespace dlock::rules {

Session session_of(const Token& token) {
  Session session = 0;
  for (std::size_t i = 0; i < sizeof session; ++i) {
    session = session << 8u | token.bytes[i];
  }
  return session | 1u;
}

std::vector<Holder>::iterator holder_of(State& state, const Token& token) {
  return std::find_if(state.holders.begin(), state.holders.end(), [&](const Holder& h) {
    return !h.ended && h.party.token == token;
  });
}

std::optional<Clock::time_point> end_of(const Holder& holder) {
  return holder.ends_at ? holder.ends_at : holder.lives_until;
}

std::vector<Waiter>::iterator waiter_of(State& state, const Token& token) {
  return std::find_if(state.waiters.begin(), state.waiters.end(),
                      [&](const Waiter& w) { return w.party.token == token; });
}

std::vector<AnsweredWaiter>::iterator answered_of(State& state, const Token& token) {
  return std::find_if(
      state.answered.begin(), state.answered.end(),
      [&](const AnsweredWaiter& d) { return d.waiter.party.token == token; });
}

void record_past_run(State& state, const RunInfo& run) {
  add_to_history(state.runs, run);
}

}  // namespace dlock::rules
