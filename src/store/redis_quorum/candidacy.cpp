#include "store/redis_quorum/candidacy.hpp"

#include <algorithm>
#include <map>

namespace dlock::redis_quorum {
namespace {

// How often the fence is raised before the attempt fails. Each time, another contender's
// attempt must have come in between.
constexpr int most_raises = 5;

// How often a claim that does not wait tries again while no claim has a majority.
constexpr int most_tries = 6;

// Too few votes are kept for about as long as a release takes to reach all servers, and
// no longer than the servers' promises to a waiter last.
constexpr milliseconds least_patience{50};
constexpr milliseconds most_patience{3000};
constexpr int rounds_of_patience = 4;
// The first waiter keeps its votes longer, so that the others give way.
constexpr int next_has_more = 4;

std::int64_t greatest_time(const Votes& votes) {
  std::int64_t time = 0;
  for (const auto& vote : votes) {
    if (vote.busy() != nullptr) {
      time = std::max<std::int64_t>(time, vote.server_time.count());
    }
  }
  return time;
}

Fence greatest_fence_in(const Votes& votes) {
  Fence greatest;
  for (const auto& vote : votes) {
    if (const auto* grant = vote.grant()) greatest = std::max(greatest, grant->fence);
  }
  return greatest;
}

CandidacyStep done(Answer answer, bool undoes) {
  return {CandidacyStep::Then::done, std::move(answer), undoes};
}

// A place in the queue is kept, because the claim asks again when the servers are back.
CandidacyStep failed(Failure failure, Queue queue) {
  return {CandidacyStep::Then::done, std::move(failure), queue != Queue::join};
}

// The greatest fence that a majority of the servers has reached, by these grants.
Fence reached_by_most(const Votes& votes) {
  std::vector<Fence> fences;
  for (const auto& vote : votes) {
    if (const auto* grant = vote.grant()) fences.push_back(grant->fence);
  }
  if (fences.size() < needed(votes.size())) return {};
  std::ranges::sort(fences, std::greater<>());
  return fences[needed(votes.size()) - 1];
}

template <typename T>
bool is_said_by_most(const Votes& votes) {
  const auto count = std::ranges::count_if(votes, [](const Vote& one) {
    return one.answer && std::holds_alternative<T>(*one.answer);
  });
  return static_cast<std::size_t>(count) >= needed(votes.size());
}

// Which of these runs most servers know, whatever they know of its end.
std::map<Identity, std::size_t> runs_told(const Votes& votes) {
  std::map<Identity, std::size_t> told;
  for (const auto& vote : votes) {
    const auto* run = vote.answer ? std::get_if<Deduplicated>(&*vote.answer) : nullptr;
    if (run != nullptr) ++told[identity_of(run->by)];
  }
  return told;
}

void strike_out(Vote& vote, const std::string& why) {
  vote.answer.reset();
  vote.failure = Failure::misconfigured(vote.server + " " + why);
}

}  // namespace

void Candidacy::forget() {
  ballot_ = {};
  is_fence_set_ = false;
  has_asked_before_ = false;
  gave_way_ = 0;
  gives_way_at_ = Clock::time_point::max();
}

Ballot Candidacy::ballot(WallTime wall) {
  wall_ = wall;
  const auto now =
      std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(wall.count(), 1)),
               greatest_believed_fence.number);
  if (!is_fence_set_) {
    ballot_.fence.number =
        std::min(std::max(now, floor_.number + 1), greatest_fence.number);
  }
  if (supersedes_ && ballot_.ticket == 0) ballot_.ticket = wall.count();
  return ballot_;
}

CandidacyStep Candidacy::after(const Votes& all_votes, Queue queue, Clock::time_point now,
                               milliseconds took) {
  const auto votes = screened(all_votes);
  auto outcome = tally(votes);
  if (auto* failure = std::get_if<Failure>(&outcome)) {
    has_asked_before_ = true;
    is_fence_set_ = false;
    return failed(std::move(*failure), queue);
  }
  // Votes of an earlier request may have a smaller fence than this ballot. If servers
  // were restarted since, another claim may have been granted the lock with a fence in
  // between.
  if (const auto* held = std::get_if<Held>(&outcome)) {
    const bool is_old = has_asked_before_ && held->grant.fence < ballot_.fence;
    return is_old ? raise(ballot_.fence, queue) : granted(*held);
  }
  has_asked_before_ = true;
  if (const auto* uneven = std::get_if<Uneven>(&outcome)) {
    return raise(std::max(uneven->fence, ballot_.fence), queue);
  }
  is_fence_set_ = false;
  const auto* split = std::get_if<Split>(&outcome);
  if (split == nullptr) {
    auto& answer = std::get<Answer>(outcome);
    auto* busy = std::get_if<Busy>(&answer);
    if (busy == nullptr || queue != Queue::join) return done(std::move(answer), true);
    return wait_in_queue(votes, nullptr, std::move(*busy), now, took);
  }
  if (queue != Queue::join) {
    if (split->may_be_held) return done(split->busy, /*undoes=*/true);
    return refuse_or_retry(votes, split->busy);
  }
  return wait_in_queue(votes, split, split->busy, now, took);
}

CandidacyStep Candidacy::granted(const Held& held) {
  gives_way_at_ = Clock::time_point::max();
  // The same fence again if the request is repeated.
  ballot_.fence = held.grant.fence;
  is_fence_set_ = true;
  auto step = done(held.grant, /*undoes=*/false);
  step.servers = held.servers;
  return step;
}

// A majority must adopt this fence before the grant counts.
CandidacyStep Candidacy::raise(Fence fence, Queue queue) {
  if (++raised_ > most_raises) {
    is_fence_set_ = false;
    return failed(
        Failure::unreachable("the servers cannot agree on a fence: too much contention"),
        queue);
  }
  ballot_.fence = fence;
  ballot_.raises = true;
  is_fence_set_ = true;
  return {CandidacyStep::Then::ask};
}

// For a claim that does not wait.
CandidacyStep Candidacy::refuse_or_retry(const Votes& votes, Busy busy) {
  if (++gave_way_ >= most_tries) {
    gave_way_ = 0;
    return done(std::move(busy), /*undoes=*/true);
  }
  auto step = give_back(votes);
  step.pause =
      milliseconds(random_up_to_(std::uint64_t{8} << static_cast<unsigned>(gave_way_)));
  return step;
}

CandidacyStep Candidacy::wait_in_queue(const Votes& votes, const Split* split, Busy busy,
                                       Clock::time_point now, milliseconds took) {
  if (busy.place == 0 && split == nullptr) return done(std::move(busy), /*undoes=*/true);
  busy.place = std::max<std::size_t>(busy.place, 1);
  busy.queued = std::max(busy.queued, busy.place);
  if (ballot_.ticket == 0) {
    ballot_.ticket = greatest_time(votes);
    if (ballot_.ticket > 0) return {CandidacyStep::Then::ask};
  }
  if (split == nullptr) {
    gives_way_at_ = Clock::time_point::max();
    return done(std::move(busy), /*undoes=*/false);
  }
  const bool gives_way = now >= gives_way_at_;
  if (gives_way || gives_way_at_ == Clock::time_point::max()) {
    gives_way_at_ = later(now, patience(split->is_next, took));
  }
  if (!gives_way) return done(std::move(busy), /*undoes=*/false);
  ++gave_way_;
  return give_back(votes);
}

void Candidacy::gave_back(Fence fence) {
  floor_ = std::max(floor_, fence);
  ballot_.raises = true;
  is_fence_set_ = false;
}

CandidacyStep Candidacy::give_back(const Votes& votes) {
  gave_back(greatest_fence_in(votes));
  return {CandidacyStep::Then::give_back};
}

milliseconds Candidacy::patience(bool is_next, milliseconds took) {
  const auto base = std::max(least_patience, took * rounds_of_patience);
  const auto doubled =
      base * (1 << std::min(gave_way_, 6)) * (is_next ? next_has_more : 1);
  const auto most = std::min(doubled, most_patience);
  return most / 2 +
         milliseconds(random_up_to_(static_cast<std::uint64_t>(most.count()) / 2));
}

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
    } else if (run != nullptr && run->by.outcome != "running" &&
               run->by.outcome != "vanished" &&
               runs.at(identity_of(run->by)) < needed(votes.size())) {
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
