#include "store/redis_quorum/screening.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/party.hpp"

namespace dlock::redis_quorum {
namespace {

// The greatest fence that a majority of the servers has reached, by these grants.
Fence reached_by_most(const Votes& votes) {
  std::vector<Fence> fences;
  for (const auto& vote : votes) {
    if (const auto* grant = vote.grant()) fences.push_back(grant->fence);
  }
  if (fences.size() < needed(votes.size())) return {};
  std::sort(fences.begin(), fences.end(), std::greater<>());
  return fences[needed(votes.size()) - 1];
}

template <typename T>
bool is_said_by_most(const Votes& votes) {
  const auto count = std::count_if(votes.begin(), votes.end(), [](const Vote& one) {
    return one.answer && std::holds_alternative<T>(*one.answer);
  });
  return static_cast<std::size_t>(count) >= needed(votes.size());
}

bool has_ended(const RunInfo& run) {
  return run.outcome != "running" && run.outcome != "vanished";
}

// Which of these runs most servers know, whatever they know of its end.
std::map<Party, std::size_t> runs_told(const Votes& votes) {
  std::map<Party, std::size_t> told;
  for (const auto& vote : votes) {
    const auto* run = vote.answer ? std::get_if<Deduplicated>(&*vote.answer) : nullptr;
    if (run != nullptr) ++told[party_of(run->by)];
  }
  return told;
}

void strike_out(Vote& vote, const std::string& why) {
  vote.answer.reset();
  vote.failure = Failure(Failure::Kind::misconfigured, vote.server + " " + why);
}

}  // namespace

Votes screened(Votes votes, WallTime now) {
  const auto plausible = greatest_plausible_fence(now, reached_by_most(votes));
  const auto runs = runs_told(votes);
  const bool slots_differ = is_said_by_most<SlotsDiffer>(votes);
  const bool is_above = is_said_by_most<HeldByOuterRun>(votes);
  for (auto& vote : votes) {
    if (!vote.answer) continue;
    const auto* run = std::get_if<Deduplicated>(&*vote.answer);
    if (const auto* grant = vote.grant(); grant != nullptr && grant->fence > plausible) {
      strike_out(
          vote,
          "grants a fence that is implausibly far ahead of the clock (dlock doctor "
          "says what to do)");
    } else if (run != nullptr && has_ended(run->by) &&
               runs.at(party_of(run->by)) < needed(votes.size())) {
      strike_out(vote, "reports a run with fence " +
                           std::to_string(run->by.fence.number) +
                           " that most servers do not know");
    } else if (std::holds_alternative<SlotsDiffer>(*vote.answer) && !slots_differ) {
      strike_out(vote, "reports other --slots, which most servers do not");
    } else if (std::holds_alternative<HeldByOuterRun>(*vote.answer) && !is_above) {
      strike_out(vote,
                 "reports that an outer run holds the lock, which most servers do not");
    }
  }
  return votes;
}

std::vector<std::string> complaints_about(const Votes& votes) {
  std::vector<std::string> messages;
  for (const auto& vote : votes) {
    const bool is_lasting = vote.failure && is_for_administrators(*vote.failure);
    if (is_lasting) messages.emplace_back(vote.failure->what());
  }
  return messages;
}

}  // namespace dlock::redis_quorum
