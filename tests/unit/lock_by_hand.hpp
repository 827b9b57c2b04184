// A lock and its contenders for tests of the granting rules. The tests set the clock and
// say who has died.
#pragma once

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/step.hpp"
#include "rules/watches.hpp"

namespace dlock::rules {

// Replaces the kernel: a process is alive and running unless it is in `dead` or
// `stopped`.
class FakeLiveness final : public Liveness {
 public:
  bool is_alive(const Holder& holder) const override {
    return dead.count(holder.party.session) == 0;
  }
  bool is_alive(const Waiter& waiter) const override {
    return dead.count(waiter.party.session) == 0;
  }

  bool is_stopped(const Waiter& waiter) const override {
    return stopped.count(waiter.party.session) != 0;
  }

  std::set<Session> dead;
  std::set<Session> stopped;  // and seen as such: the kernel does not show all
};

inline Token token_of(Session who) {
  Token token;
  for (std::size_t i = 0; i < sizeof who; ++i) {
    token.bytes[i] = static_cast<std::uint8_t>(who >> (8 * i));
  }
  return token;
}

// Not named session_of(): the store has such a function with the same arguments.
inline Session number_of(const Token& token) {
  Session who = 0;
  for (std::size_t i = 0; i < sizeof who; ++i) who |= Session{token.bytes[i]} << (8 * i);
  return who;
}

// A contender is a number, from which its session and its token are made.
inline Party party_of(Session who) {
  Party party;
  party.token = token_of(who);
  party.session = who;
  party.pid = static_cast<std::int32_t>(1000 + who);
  party.user = "33";
  party.host = "web1";
  return party;
}

inline Claim exclusive(Session who) {
  Claim claim;
  claim.lock = {"dlock", "job"};
  claim.token = token_of(who);
  claim.command = {"./job"};
  return claim;
}

inline Claim shared(Session who) {
  auto claim = exclusive(who);
  claim.mode = Mode::shared;
  return claim;
}

inline Claim slot(Session who, unsigned slots) {
  auto claim = exclusive(who);
  claim.slots = slots;
  return claim;
}

inline Claim spreading(Session who, unsigned slots) {
  auto claim = slot(who, slots);
  claim.spreads = true;
  return claim;
}

inline Claim detached(Session who, milliseconds ttl = std::chrono::seconds(30)) {
  auto claim = exclusive(who);
  claim.attached = false;
  claim.ttl = ttl;
  return claim;
}

inline Claim inside(Claim claim, Fence above) {
  claim.outer_fences.push_back(above);
  return claim;
}

struct LockByHand {
  Answer ask(const Claim& claim, Queue queue = Queue::stay_out) {
    then = {};
    const auto party = party_of(number_of(claim.token));
    return rules::ask(step(), {claim, party, queue});
  }

  Release release(Session who, const std::optional<RunEnd>& end = std::nullopt) {
    then = {};
    return rules::release(step(), token_of(who), end);
  }

  Renewal renew(Session who, milliseconds ttl) {
    then = {};
    return rules::renew(step(), token_of(who), ttl);
  }

  void pass(nanoseconds time) {
    now.boot += time;
    now.wall += std::chrono::duration_cast<WallTime>(time);
  }

  Step step() { return {state, now, liveness, then}; }
  WaitsFor watch(Session who) const { return waits_for(state, token_of(who), now); }
  LockInfo info() const { return info_of(state, {"dlock", "job"}, now, liveness); }

  State state;
  FakeLiveness liveness;
  Moment now{Clock::time_point(std::chrono::hours(1)),
             std::chrono::seconds(1'700'000'000)};
  Consequences then;  // of the last step
};

}  // namespace dlock::rules
