// A rate limit as it is kept in a row: the state of the rules, and who was admitted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/limit.hpp"

namespace dlock::postgres {

// Times are those of the server's clock.
class PgLimit {
 public:
  // As RateLimits::admit(). `has_changed`: whether the row has to be written.
  RateAnswer admit(const RateClaim& claim, WallTime now, bool& has_changed);

  // Whether the waiter was in the queue.
  bool withdraw(const Token& token) { return rules::withdraw(state_, token); }

  const rules::LimitState& state() const { return state_; }

  // When the row no longer matters.
  WallTime matters_until(WallTime now) const;

  // ASCII: a line of JSON, then the admissions, of which there may be ten thousand. The
  // inverse returns nothing for what dlock has not written.
  std::string text() const;
  static std::optional<PgLimit> from(std::string_view text);

 private:
  bool is_admitted(const Token& token, WallTime now) const;
  std::optional<Clock::time_point> turn_of(const Token& token) const;
  bool take_admissions(std::string_view text);

  rules::LimitState state_;
  std::vector<std::string> admitted_;  // the beginning of the token of each stamp
};

}  // namespace dlock::postgres
