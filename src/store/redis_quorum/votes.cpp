#include "store/redis_quorum/votes.hpp"

#include "util/text.hpp"

namespace dlock::redis_quorum {

std::optional<Failure> why_no_vote(const std::string& server, milliseconds up,
                                   milliseconds max_ttl) {
  if (up >= max_ttl) return std::nullopt;
  return Failure(Failure::Kind::unreachable,
                 server + " has no vote until it has been up for " + for_people(max_ttl) +
                     " (--max-ttl), in " + for_people(max_ttl - up));
}

Vote counted(Vote vote, std::optional<Failure> no_vote) {
  if (!no_vote || !vote.answer) return vote;
  vote.answer.reset();
  vote.failure = std::move(no_vote);
  vote.has_no_vote = true;
  return vote;
}

}  // namespace dlock::redis_quorum
