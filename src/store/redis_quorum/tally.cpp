#include "store/redis_quorum/tally.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/party.hpp"

namespace dlock::redis_quorum {
namespace {

std::vector<Failure> failures_of(const Votes& votes) {
  std::vector<Failure> failures;
  for (const auto& vote : votes) {
    if (vote.failure) failures.push_back(*vote.failure);
  }
  return failures;
}

std::size_t answered(const Votes& votes) {
  return static_cast<std::size_t>(
      std::count_if(votes.begin(), votes.end(),
                    [](const Vote& one) { return one.answer.has_value(); }));
}

std::size_t granted(const Votes& votes) {
  return static_cast<std::size_t>(
      std::count_if(votes.begin(), votes.end(),
                    [](const Vote& one) { return one.grant() != nullptr; }));
}

// A failure that only an administrator can fix.
std::optional<Failure> misconfigured(const Votes& votes) {
  std::set<std::string> lives;
  for (const auto& vote : votes) {
    const bool is_wrong =
        vote.failure && vote.failure->kind() == Failure::Kind::misconfigured;
    if (is_wrong) return vote.failure;
    if (!vote.answer || vote.run_id.empty()) continue;
    if (!lives.insert(vote.run_id).second) {
      return Failure(Failure::Kind::misconfigured,
                     "two of the servers are the same server (run_id " + vote.run_id +
                         "): name each server once");
    }
  }
  return std::nullopt;
}

bool needs_most(const RunInfo& run) {
  return run.outcome == "running" || run.outcome == "vanished";
}

std::optional<Answer> deduplicated(const Votes& votes) {
  std::map<Party, std::size_t> told;
  for (const auto& vote : votes) {
    const auto* run = vote.answer ? std::get_if<Deduplicated>(&*vote.answer) : nullptr;
    if (run == nullptr) continue;
    const auto by = ++told[party_of(run->by)];
    if (!needs_most(run->by) || by >= needed(votes.size())) return *run;
  }
  return std::nullopt;
}

// The answer of type T that at least `enough` servers give; nothing if there is none.
template <typename T>
std::optional<Answer> said_by(std::size_t enough, const Votes& votes) {
  std::size_t count = 0;
  for (const auto& vote : votes) {
    const auto* said = vote.answer ? std::get_if<T>(&*vote.answer) : nullptr;
    if (said != nullptr && ++count >= enough) return *said;
  }
  return std::nullopt;
}

Outcome granted_by_most(const Votes& votes) {
  std::map<Fence, Held> with_fence;
  bool is_broken = false;
  for (const auto& vote : votes) {
    const auto* grant = vote.grant();
    if (grant == nullptr) continue;
    auto& held = with_fence[grant->fence];
    is_broken = is_broken || grant->broken;
    if (held.servers++ == 0 || grant->sent_at < held.grant.sent_at) held.grant = *grant;
  }
  for (auto& [fence, held] : with_fence) {
    if (held.servers < needed(votes.size())) continue;
    held.grant.broken = is_broken;
    held.grant.slot = 0;
    return held;
  }
  return Uneven{with_fence.rbegin()->first};
}

// How many servers report each holder.
std::map<Party, std::size_t> holders_told(const Votes& votes) {
  std::map<Party, std::size_t> told;
  for (const auto& vote : votes) {
    if (const auto* busy = vote.busy()) {
      for (const auto& holder : busy->holders) ++told[party_of(holder)];
    }
  }
  return told;
}

// The possible holders: counting the servers that did not reply, a majority could have
// their leases.
std::set<Party> possible_holders(const Votes& votes) {
  const auto silent = votes.size() - answered(votes);
  std::set<Party> possible;
  for (const auto& [party, servers] : holders_told(votes)) {
    if (servers + silent >= needed(votes.size())) possible.insert(party);
  }
  return possible;
}

bool is_held_by_most(const Votes& votes) {
  const auto told = holders_told(votes);
  return std::any_of(told.begin(), told.end(),
                     [&](const auto& one) { return one.second >= needed(votes.size()); });
}

// The holders that block the claim: the possible holders or, if there can be none, the
// claims that have votes.
Busy merged(const Votes& votes, const std::set<Party>& possible) {
  Busy all;
  std::set<Party> shown;
  std::size_t without_place = 0;
  for (const auto& vote : votes) {
    const auto* busy = vote.busy();
    if (busy == nullptr) continue;
    if (busy->place == 0) ++without_place;
    all.place = std::max(all.place, busy->place);
    all.queued = std::max(all.queued, busy->queued);
    for (const auto& holder : busy->holders) {
      if (!possible.empty() && !possible.contains(party_of(holder))) continue;
      if (shown.insert(party_of(holder)).second) all.holders.push_back(holder);
    }
  }
  // A claim needs a place in this many queues to be granted the lock.
  if (without_place >= in_every_majority(votes.size())) all.place = 0;
  return all;
}

Outcome not_granted(const Votes& votes) {
  const auto possible = possible_holders(votes);
  auto busy = merged(votes, possible);
  // Only a claim that is known to have a majority: of two claims that wait for a silent
  // server, each would consider the other the holder, and neither would ever give way.
  if (is_held_by_most(votes) || granted(votes) == 0) return Answer(std::move(busy));
  const bool is_next = std::all_of(votes.begin(), votes.end(), [](const Vote& one) {
    return one.busy() == nullptr || one.busy()->place <= 1;
  });
  return Split{std::move(busy), is_next, !possible.empty()};
}

template <typename T>
std::size_t count_of(const std::vector<MaybeReply<T>>& all,
                     std::initializer_list<T> answers) {
  std::size_t count = 0;
  for (const auto& said : all) {
    const auto* answer = said ? std::get_if<T>(&*said) : nullptr;
    if (answer == nullptr) continue;
    if (std::find(answers.begin(), answers.end(), *answer) != answers.end()) ++count;
  }
  return count;
}

template <typename T>
std::vector<Failure> failures_in(const std::vector<MaybeReply<T>>& all) {
  std::vector<Failure> failures;
  for (const auto& said : all) {
    const auto* failure = said ? std::get_if<Failure>(&*said) : nullptr;
    if (failure != nullptr) failures.push_back(*failure);
  }
  return failures;
}

std::size_t confirmed(const RenewalReplies& all) {
  return count_of(all, {Renewal::confirmed, Renewal::broken});
}

std::size_t set_up_again(const RenewalReplies& all) {
  return count_of(all, {Renewal::reclaimed});
}

std::size_t lost(const RenewalReplies& all) {
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), is_missing));
}

}  // namespace

Failure too_few(std::size_t count, std::size_t servers,
                const std::vector<Failure>& failures, std::string_view what_they_do) {
  auto kind = failures.empty() ? Failure::Kind::unreachable : Failure::Kind::rejected;
  for (const auto& failure : failures) {
    if (failure.kind() == Failure::Kind::exhausted) return failure;
    if (failure.kind() != Failure::Kind::rejected) kind = Failure::Kind::unreachable;
  }
  const auto reason = !failures.empty() ? std::string(failures.front().what())
                      : count == 0      ? "no reply in time"
                                        : "the others do not reply";
  return Failure(kind, std::to_string(count) + " of " + std::to_string(servers) +
                           " servers " + std::string(what_they_do) + ", " +
                           std::to_string(needed(servers)) + " required: " + reason);
}

Outcome tally(const Votes& votes) {
  const auto most = needed(votes.size());
  if (auto failure = misconfigured(votes)) return *failure;
  if (answered(votes) < most) {
    return too_few(answered(votes), votes.size(), failures_of(votes));
  }
  if (auto run = deduplicated(votes)) return *run;
  if (auto differ = said_by<SlotsDiffer>(1, votes)) return *differ;
  if (auto above = said_by<HeldByOuterRun>(1, votes)) return *above;
  if (auto newer = said_by<Superseded>(most, votes)) return *newer;
  if (granted(votes) >= most) return granted_by_most(votes);
  return not_granted(votes);
}

bool is_certain(const Votes& votes) {
  const auto most = needed(votes.size());
  const auto open = static_cast<std::size_t>(
      std::count_if(votes.begin(), votes.end(),
                    [](const Vote& one) { return !one.answer && !one.failure; }));
  const auto for_it = granted(votes);
  return for_it >= most || for_it + open < most;
}

bool is_missing(const MaybeReply<Renewal>& said) {
  const auto* renewal = said ? std::get_if<Renewal>(&*said) : nullptr;
  return renewal != nullptr && *renewal != Renewal::confirmed &&
         *renewal != Renewal::broken && *renewal != Renewal::reclaimed;
}

bool is_certain(const RenewalReplies& confirmations) {
  const auto servers = confirmations.size();
  return confirmed(confirmations) + set_up_again(confirmations) >= needed(servers) ||
         servers - lost(confirmations) < needed(servers);
}

std::variant<Renewal, Failure> tally(const RenewalReplies& confirmations) {
  const auto servers = confirmations.size();
  const auto have_it = confirmed(confirmations) + set_up_again(confirmations);
  if (have_it >= needed(servers)) {
    if (count_of(confirmations, {Renewal::broken}) > 0) return Renewal::broken;
    return confirmed(confirmations) >= needed(servers) ? Renewal::confirmed
                                                       : Renewal::reclaimed;
  }
  if (servers - lost(confirmations) < needed(servers)) {
    return count_of(confirmations, {Renewal::taken_over}) > 0 ? Renewal::taken_over
                                                              : Renewal::gone;
  }
  return too_few(have_it, servers, failures_in(confirmations), "confirm the lease");
}

std::variant<Release, Failure> tally(const ReleaseReplies& returns, bool relied) {
  const auto servers = returns.size();
  const auto failures = failures_in(returns);
  const auto answers = static_cast<std::size_t>(std::count_if(
      returns.begin(), returns.end(), [](const auto& said) { return said.has_value(); }));
  if (count_of(returns, {Release::broken}) > 0) return Release::broken;
  const auto taken = count_of(returns, {Release::taken_over, Release::failed_over});
  const auto losses = taken + count_of(returns, {Release::gone}) +
                      (relied ? count_of(returns, {Release::not_ours}) : 0);
  if (servers - losses < needed(servers)) {
    return taken > 0 ? Release::taken_over : Release::gone;
  }
  if (answers - failures.size() < needed(servers)) {
    return too_few(answers - failures.size(), servers, failures);
  }
  if (count_of(returns, {Release::left}) > 0) return Release::left;
  const bool was_held =
      count_of(returns, {Release::released}) > 0 &&
      servers - losses - (relied ? 0 : count_of(returns, {Release::not_ours})) >=
          needed(servers);
  return was_held ? Release::released : Release::not_ours;
}

}  // namespace dlock::redis_quorum
