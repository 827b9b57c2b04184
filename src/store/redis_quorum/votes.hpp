// What each of several servers said in one round of questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/answers.hpp"
#include "lock/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis_quorum {

// What one server said to a claim; neither an answer nor a failure while it is silent.
struct Vote {
  std::optional<Answer> answer;
  std::optional<Failure> failure;
  std::string run_id;      // of the server that answered: it has a new one in each life
  WallTime server_time{};  // with Busy

  const Grant* grant() const { return answer ? std::get_if<Grant>(&*answer) : nullptr; }
  const Busy* busy() const { return answer ? std::get_if<Busy>(&*answer) : nullptr; }
};
using Votes = std::vector<Vote>;

// Why `server` has no vote, if it has none: it may have forgotten a lease when it was
// started, and such a lease has ended only when it is `up` for as long as the longest
// lease lasts.
std::optional<Failure> why_no_vote(const std::string& server, milliseconds up,
                                   milliseconds max_ttl);

// A vote with the answer struck out if the server has none to give.
Vote counted(Vote vote, std::optional<Failure> no_vote);

// What one said to something else; nothing while it is silent.
template <typename T>
using Said = std::optional<std::variant<T, Failure>>;

using Confirmations = std::vector<Said<Renewal>>;  // to a renewal
using Returns = std::vector<Said<Release>>;        // to a release

}  // namespace dlock::redis_quorum
