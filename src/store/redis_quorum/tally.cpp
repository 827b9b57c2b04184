#include "store/redis_quorum/tally.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "util/text.hpp"

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
  return static_cast<std::size_t>(std::ranges::count_if(
      votes, [](const Vote& one) { return one.answer.has_value(); }));
}

std::size_t granted(const Votes& votes) {
  return static_cast<std::size_t>(std::ranges::count_if(
      votes, [](const Vote& one) { return one.grant() != nullptr; }));
}

// Whether two entries of the store URL are one server, which must not vote twice.
std::optional<Failure> same_server(const Votes& votes) {
  std::vector<std::string> lives;
  for (const auto& vote : votes) {
    if (vote.answer || vote.has_no_vote) lives.push_back(vote.run_id);
  }
  return same_server_in(std::move(lives));
}

std::optional<Answer> deduplicated(const Votes& votes) {
  std::map<Identity, std::size_t> told;
  for (const auto& vote : votes) {
    const auto* run = vote.answer ? std::get_if<Deduplicated>(&*vote.answer) : nullptr;
    if (run == nullptr) continue;
    if (++told[identity_of(run->by)] >= needed(votes.size())) return *run;
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

TallyResult granted_by_most(const Votes& votes) {
  std::map<Fence, Held> with_fence;
  std::map<Fence, std::size_t> broken;
  for (const auto& vote : votes) {
    const auto* grant = vote.grant();
    if (grant == nullptr) continue;
    auto& held = with_fence[grant->fence];
    if (grant->broken) ++broken[grant->fence];
    if (held.servers++ == 0 || grant->sent_at < held.grant.sent_at) held.grant = *grant;
  }
  for (auto& [fence, held] : with_fence) {
    if (held.servers < needed(votes.size())) continue;
    held.grant.broken = broken[fence] >= marked_at_least(votes.size(), held.servers);
    held.grant.slot = 0;
    return held;
  }
  return Uneven{with_fence.rbegin()->first};
}

// How many servers report each holder.
std::map<Identity, std::size_t> holders_told(const Votes& votes) {
  std::map<Identity, std::size_t> told;
  for (const auto& vote : votes) {
    if (const auto* busy = vote.busy()) {
      for (const auto& holder : busy->holders) ++told[identity_of(holder)];
    }
  }
  return told;
}

// The possible holders: counting the servers that did not reply, a majority could have
// their leases.
std::set<Identity> possible_holders(const Votes& votes) {
  const auto silent = votes.size() - answered(votes);
  std::set<Identity> possible;
  for (const auto& [identity, servers] : holders_told(votes)) {
    if (servers + silent >= needed(votes.size())) possible.insert(identity);
  }
  return possible;
}

bool is_held_by_most(const Votes& votes) {
  const auto told = holders_told(votes);
  return std::ranges::any_of(
      told, [&](const auto& one) { return one.second >= needed(votes.size()); });
}

// The holders that block the claim: the possible holders or, if there can be none, the
// claims that have votes.
Busy merged(const Votes& votes, const std::set<Identity>& possible) {
  Busy all;
  std::set<Identity> shown;
  std::size_t without_place = 0;
  for (const auto& vote : votes) {
    const auto* busy = vote.busy();
    if (busy == nullptr) continue;
    if (busy->place == 0) ++without_place;
    all.place = std::max(all.place, busy->place);
    all.queued = std::max(all.queued, busy->queued);
    for (const auto& holder : busy->holders) {
      if (!possible.empty() && !possible.contains(identity_of(holder))) continue;
      if (shown.insert(identity_of(holder)).second) all.holders.push_back(holder);
    }
  }
  // A claim needs a place in this many queues to be granted the lock.
  if (without_place >= in_every_majority(votes.size())) all.place = 0;
  return all;
}

TallyResult not_granted(const Votes& votes) {
  const auto possible = possible_holders(votes);
  auto busy = merged(votes, possible);
  // Only a claim that is known to have a majority: of two claims that wait for a silent
  // server, each would consider the other the holder, and neither would ever give way.
  if (is_held_by_most(votes) || granted(votes) == 0) return Answer(std::move(busy));
  const bool is_next = std::ranges::all_of(votes, [](const Vote& one) {
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
    if (std::ranges::find(answers, *answer) != answers.end()) ++count;
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
  return static_cast<std::size_t>(std::ranges::count_if(all, is_missing));
}

// All of them may reply, and yet have no vote.
Failure too_few_votes(const Votes& votes) {
  const auto servers = votes.size();
  std::string waiting;
  std::size_t replied = answered(votes);
  for (const auto& vote : votes) {
    if (!vote.has_no_vote) continue;
    ++replied;
    waiting += (waiting.empty() ? "" : "; ") + std::string(vote.failure->what());
  }
  if (waiting.empty()) return too_few(answered(votes), servers, failures_of(votes));
  return Failure::unreachable(std::to_string(replied) + " of " + std::to_string(servers) +
                              " servers reply, " + std::to_string(answered(votes)) +
                              " can vote, " + std::to_string(needed(servers)) +
                              " required: " + waiting);
}

}  // namespace

std::optional<Failure> same_server_in(std::vector<std::string> run_ids) {
  std::erase(run_ids, "");
  std::ranges::sort(run_ids);
  const auto twin = std::ranges::adjacent_find(run_ids);
  if (twin == run_ids.end()) return std::nullopt;
  return Failure::misconfigured("two of the servers are the same server (run_id " +
                                *twin + "): name each server once");
}

Failure too_few(std::size_t count, std::size_t servers,
                const std::vector<Failure>& failures, std::string_view what_they_do) {
  std::size_t lasting = 0;
  const Failure* wrong = nullptr;  // the first that lasts
  const Failure* away = nullptr;   // the first other one
  for (const auto& failure : failures) {
    if (failure.kind() == Failure::Kind::exhausted) return failure;
    auto& first = is_for_administrators(failure) ? wrong : away;
    if (first == nullptr) first = &failure;
    if (is_for_administrators(failure)) ++lasting;
  }
  const bool is_lasting = lasting >= in_every_majority(servers);
  std::string reason;
  for (const auto* failure : {is_lasting ? wrong : away, is_lasting ? away : wrong}) {
    if (failure == nullptr) continue;
    reason += (reason.empty() ? "" : "; ") + std::string(failure->what());
  }
  if (reason.empty()) {
    reason = count == 0 ? "no reply in time" : "the others do not reply";
  }
  return Failure(is_lasting ? wrong->kind() : Failure::Kind::unreachable,
                 std::to_string(count) + " of " + std::to_string(servers) + " servers " +
                     std::string(what_they_do) + ", " + std::to_string(needed(servers)) +
                     " required: " + reason);
}

TallyResult tally(const Votes& votes) {
  const auto most = needed(votes.size());
  if (auto failure = same_server(votes)) return *failure;
  if (answered(votes) < most) return too_few_votes(votes);
  if (auto run = deduplicated(votes)) return *run;
  if (auto differ = said_by<SlotsDiffer>(most, votes)) return *differ;
  if (auto above = said_by<HeldByOuterRun>(most, votes)) return *above;
  if (auto newer = said_by<Superseded>(most, votes)) return *newer;
  if (granted(votes) >= most) return granted_by_most(votes);
  return not_granted(votes);
}

bool is_certain(const Votes& votes) {
  const auto most = needed(votes.size());
  const auto open = static_cast<std::size_t>(std::ranges::count_if(
      votes, [](const Vote& one) { return !one.answer && !one.failure; }));
  const auto for_it = granted(votes);
  // The message says how many reply, and when they can vote.
  const bool has_young =
      std::ranges::any_of(votes, [](const Vote& one) { return one.has_no_vote; });
  if (has_young && open > 0 && answered(votes) < most) return false;
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
    const auto broken = count_of(confirmations, {Renewal::broken});
    if (broken >= marked_at_least(servers, have_it)) return Renewal::broken;
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
  const auto answers = static_cast<std::size_t>(
      std::ranges::count_if(returns, [](const auto& said) { return said.has_value(); }));
  const auto broken = count_of(returns, {Release::broken});
  const auto had_it = broken + count_of(returns, {Release::released});
  if (broken > 0 && broken >= marked_at_least(servers, had_it)) return Release::broken;
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

std::optional<Failure> why_no_vote(const std::string& server, milliseconds up,
                                   milliseconds max_ttl) {
  if (up >= max_ttl) return std::nullopt;
  return Failure::unreachable(server + " has no vote until it has been up for " +
                              for_people(max_ttl) + " (--max-ttl), in " +
                              for_people(max_ttl - up));
}

Vote counted(Vote vote, std::optional<Failure> no_vote) {
  if (!no_vote || !vote.answer) return vote;
  vote.answer.reset();
  vote.failure = std::move(no_vote);
  vote.has_no_vote = true;
  return vote;
}

}  // namespace dlock::redis_quorum
