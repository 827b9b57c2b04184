// The steps of a random history of one lock, and what each side shows after a step.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::against {

using rules::Session;

// A contender: it asks, waits, holds and ends. A new one then takes its place.
struct Contender {
  Session number = 0;
  Claim claim;
  std::optional<rules::Holder> grant;  // as it was granted
  bool knows_loss = false;
  bool waits = false;  // as far as it knows
};

// Several contenders are on each of these hosts.
inline std::string host_of(Session contender) {
  return "web" + std::to_string(contender % 4);
}

inline std::string number(std::int64_t value) { return std::to_string(value); }

// Of a renewal that keeps the ttl of the lease, which is another one.
constexpr milliseconds other_ttl{777};

// Of a renewal that shortens the lease.
inline milliseconds shortened(milliseconds ttl) { return ttl / 4 + milliseconds(1); }

// `save` keeps a copy of the state, and `go_back` makes it the state again: a server that
// was behind has taken over. `reclaim` is by a holder that has lost its lease by that.
enum class Act {
  ask,
  release,
  renew,
  take_away,
  remove_expired,
  inspect,
  history,
  reclaim,
  save,
  go_back
};

struct Step {
  Act act = Act::remove_expired;
  WallTime now{};
  std::size_t who = 0;  // the index of the contender
  Queue queue = Queue::join;
  std::optional<RunEnd> end;
  std::vector<Fence> fences;  // whose leases are broken
  bool by_force = false;
  bool shortens = false;  // a renewal of a detached lease
};

struct SeenEvent {
  Event::Kind kind;
  std::string text;
  unsigned free = 0;
  pid_t pid = 0;
};

// What a side shows after a step, in the same words as the other side.
struct Seen {
  std::string answer;
  std::vector<std::string> state;  // slots and fence, holders, then waiters in order
  std::vector<SeenEvent> events;
  std::set<Session> told;    // notified that they should ask now
  std::set<Session> handed;  // notified that they have the lock
  std::set<Fence> orders;    // holders that were told to end
};

std::string text_of(const Step& step, const Contender& contender);

// Runs, events and locks in the words of both sides. Events are sorted, because their
// order within a step is not promised, and so neither is the number of free slots in
// each. The events of waiters in `dead` that left the queue are omitted.
std::vector<std::string> comparable(const std::vector<SeenEvent>& events,
                                    const std::set<pid_t>& dead);
std::string text_of(const rules::GrantId& grant);  // as the scripts name it
std::string text_of(const RunInfo& run);
std::string text_of(const std::optional<Taker>& taker);  // empty if there is none
std::string text_of(const Event& event);
std::string text_of(const LockInfo& info);
std::string text_of(const std::vector<RunInfo>& runs);
std::string text_of_holder(const HolderInfo& info);

}  // namespace dlock::against
