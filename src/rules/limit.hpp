// The rules of rate limits, as plain functions on the state of one limit.
//
// They are those of limit.lua, too. Moments come in as arguments, nothing is waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/store.hpp"

namespace dlock::rules {

// One who waits, and from when on it is to ask again.
struct Turn {
  Token token;
  Clock::time_point at;
  std::string host = {};  // both for those who look
  pid_t pid = 0;
};

struct LimitState {
  Rate rate;
  std::vector<Clock::time_point> stamps;  // admissions of the last period, in order
  std::vector<Turn> turns;                // in order of arrival
};

// Admits, or says when; see Store::admit. What is older than the period, and turns that
// have lapsed, are dropped first.
//
// Who is in place k of the line (from 0) can be admitted as soon as the stamp is a period
// old that will be the rate-th newest once the k before it are admitted. While k is less
// than the rate that stamp is there already, so however late those before it take their
// turns, its own stays the same. One that is a period late counts no more for those who
// wait behind it, or it would cost them more than its turn where periods are short; but
// it keeps its place until its turn lapses.
RateAnswer admit(LimitState& state, const RateClaim& claim, Clock::time_point now);

// Whether it had a place in line.
bool withdraw(LimitState& state, const Token& token);

// What there is to see of it; see RateLimits::look.
LimitInfo look(LimitState state, Clock::time_point now);

// Whether nothing of it is of consequence any more.
bool is_out_of_use(const LimitState& state, Clock::time_point now);

}  // namespace dlock::rules
