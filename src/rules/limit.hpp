// The rules of rate limits, as plain functions on the state of one limit.
//
// limit.lua also follows them. Times are arguments, and nothing waits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"

namespace dlock::rules {

// A waiter, and the time from which it is to ask again.
struct Turn {
  Token token;
  Clock::time_point at;
  std::string host = {};  // both for display
  pid_t pid = 0;
};

struct LimitState {
  Rate rate;
  std::vector<Clock::time_point> stamps;  // admissions of the last period, in order
  std::vector<Turn> turns;                // in order of arrival
};

// Admits the claim, or returns when it can be admitted; see RateLimits::admit. First
// drops stamps older than the period and turns that have lapsed.
//
// The waiter in position k of the queue (from 0) can be admitted once a certain stamp is
// a period old: the one that will be the rate-th newest after the k waiters before it
// were admitted. While k is less than the rate, that stamp exists already, so the
// waiter's turn does not change however late those before it take theirs. A turn that is
// a period late no longer counts for those behind it: where periods are short, it would
// otherwise delay them by more than one turn. But it keeps its place until its turn
// lapses.
RateAnswer admit(LimitState& state, const RateClaim& claim, Clock::time_point now);

// Removes the waiter. Returns whether it was in the queue.
bool withdraw(LimitState& state, const Token& token);

// The limit for display; see RateLimits::look.
LimitInfo look(LimitState state, Clock::time_point now);

// Whether the state no longer matters and can be removed.
bool is_out_of_use(const LimitState& state, Clock::time_point now);

}  // namespace dlock::rules
