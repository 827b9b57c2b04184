// The steps of a random history of one lock, and what each of two sides shows of one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rules/granting.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::against {

using rules::Session;

// One who asks, waits, holds and goes. A new one takes its place then.
struct Contender {
  Session number = 0;
  Claim claim;
  std::optional<rules::Holder> grant;  // as it was granted
  bool knows_loss = false;
  bool waits = false;  // as far as it has been told
};

enum class Act { ask, release, renew, take_away, remove_expired, inspect, history };

struct Step {
  Act act = Act::remove_expired;
  WallTime now{};
  std::size_t who = 0;  // the contender's place in the list of them
  Queue queue = Queue::join;
  std::optional<RunEnd> end;
  std::vector<Fence> fences;  // whose leases are broken
};

struct SeenEvent {
  Event::Kind kind;
  std::string text;
  unsigned free = 0;
  pid_t pid = 0;
};

// What a side shows of a step, in words that both use.
struct Seen {
  std::string answer;
  std::vector<std::string> state;  // its slots and fence, holders, then waiters in order
  std::vector<SeenEvent> events;
  std::set<Session> told;    // to ask now
  std::set<Session> handed;  // those that were told that they have the lock
  std::set<Fence> orders;    // the holders that were told to end
};

std::string text_of(const Step& step, const Contender& contender);

// What both sides say of a run, an event, and what a look shows.
// Events sorted, for which of two comes first is not promised, and so not which of them
// tells how many more could hold the lock between them; without those that `dead` ones
// have left.
std::vector<std::string> comparable(const std::vector<SeenEvent>& events,
                                    const std::set<pid_t>& dead);
std::string text_of(const RunInfo& run);
std::string text_of(const std::optional<Taker>& taker);  // empty for none
std::string text_of(const Event& event);
std::string text_of(const LockInfo& info);
std::string text_of(const std::vector<RunInfo>& runs);
std::string text_of_holder(const HolderInfo& info);

// A waiter that was not heard of for so long is dead (PLACE_MS in the scripts).
constexpr milliseconds place_lasts{90'000};

}  // namespace dlock::against
