// The replies of several servers in one round of requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/answers.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis_quorum {

// The reply of one server to a claim; neither `answer` nor `failure` if it did not reply.
struct Vote {
  std::optional<Answer> answer;
  std::optional<Failure> failure;
  std::string run_id;        // of the server that replied; different after each restart
  WallTime server_time{};    // with Busy
  std::string server;        // its name, for messages
  bool has_no_vote = false;  // it replied, and `failure` is why_no_vote()

  const Grant* grant() const { return answer ? std::get_if<Grant>(&*answer) : nullptr; }
  const Busy* busy() const { return answer ? std::get_if<Busy>(&*answer) : nullptr; }
};
using Votes = std::vector<Vote>;

// Why `server` has no vote, if it has none: it may have forgotten a lease when it was
// restarted, and that lease has ended for certain only when the server has been `up` for
// as long as the longest lease.
std::optional<Failure> why_no_vote(const std::string& server, milliseconds up,
                                   milliseconds max_ttl);

// The vote, or `no_vote` in its place if that is set.
Vote counted(Vote vote, std::optional<Failure> no_vote);

// Whether only an administrator can help: waiting does not.
inline bool is_for_administrators(const Failure& failure) {
  return failure.kind() == Failure::Kind::misconfigured ||
         failure.kind() == Failure::Kind::rejected;
}

// The reply of one server to another request; nothing if it did not reply.
template <typename T>
using MaybeReply = std::optional<std::variant<T, Failure>>;

using RenewalReplies = std::vector<MaybeReply<Renewal>>;  // to a renewal
using ReleaseReplies = std::vector<MaybeReply<Release>>;  // to a release

}  // namespace dlock::redis_quorum
