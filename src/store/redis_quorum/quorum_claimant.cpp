#include <algorithm>

#include "store/redis_quorum/quorum_store.hpp"
#include "store/redis_quorum/tally.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

// The part of a request's budget that is kept for releasing votes: one in this many.
constexpr int kept_for_releases = 4;

Failure too_weak(int strength, unsigned wanted, std::size_t held, std::size_t servers) {
  return Failure(Failure::Kind::unreachable,
                 std::to_string(held) + " of " + std::to_string(servers) +
                     " servers grant the lock: strength " + std::to_string(strength) +
                     " is below --min-strength " + std::to_string(wanted));
}

// Within this time all servers have notified the waiters of a release.
constexpr milliseconds others_are_notified_within{10};

// The pause before the next attempt if no server can be reached.
constexpr milliseconds pause_without_servers{300};

// How often votes are renewed per ttl while another claim holds the lock.
constexpr int vote_renewals_per_ttl = 3;

}  // namespace

QuorumClaimant::QuorumClaimant(asio::io_context& context, const Voters& voters,
                               const QuorumTerms& terms, milliseconds timeout,
                               const Claim& claim, std::shared_ptr<Complaints> complaints)
    : Claimant(claim),
      context_(context),
      voters_(voters),
      terms_(terms),
      timeout_(timeout),
      complaints_(std::move(complaints)),
      candidacy_(claim.fence_floor, claim.supersedes, random_up_to) {
  for (const auto& voter : voters_) {
    seats_.push_back(std::make_shared<Seat>(voter, claim));
  }
  votes_.resize(seats_.size());
  is_silent_.resize(seats_.size());
}

QuorumClaimant::~QuorumClaimant() {
  for (const auto& voter : voters_) voter->give_up();
}

Vote QuorumClaimant::vote_of(const Seat& seat, const MaybeReply<Answer>& said) {
  Vote vote;
  vote.server = seat.voter->name();
  if (!said) return vote;
  if (const auto* failure = std::get_if<Failure>(&*said)) {
    vote.failure = *failure;
    return vote;
  }
  vote.run_id = seat.voter->run_id();
  vote.answer = std::get<Answer>(*said);
  vote.server_time = seat.claimant.busy_at();
  return counted(std::move(vote), seat.voter->has_no_vote());
}

Votes QuorumClaimant::votes_of(const FanOut<Answer>::Answers& answers) const {
  Votes votes;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    votes.push_back(vote_of(*seats_[i], answers[i]));
  }
  return votes;
}

// A slow server gets no further request while its reply to the earlier one may arrive.
FanOut<Answer>::Answers QuorumClaimant::failures_of_busy_voters() const {
  FanOut<Answer>::Answers answers(voters_.size());
  for (std::size_t i = 0; i < voters_.size(); ++i) {
    if (!voters_[i]->is_idle()) answers[i] = voters_[i]->still_busy();
  }
  return answers;
}

asio::awaitable<Votes> QuorumClaimant::vote(Queue queue, Call call) {
  const auto ballot = candidacy_.ballot(wall_now());
  const auto seats = seats_;
  const auto ask_one = [seats, queue, ballot](std::size_t number, Wakeup& own) {
    seats[number]->claimant.set_ballot(ballot);
    return seats[number]->claimant.ask(queue, own);
  };
  FanOut<Answer> round(voters_, failures_of_busy_voters(), ask_one);
  const auto is_enough = [this](const FanOut<Answer>::Answers& answers) {
    return is_certain(candidacy_.screened(votes_of(answers)));
  };
  co_await round.wait_for_most(is_enough, call);
  note_silent(round.answers());
  co_return votes_of(round.answers());
}

void QuorumClaimant::require_short_lease() const {
  const auto kept = claim().ttl + claim().lock_delay;
  const auto most = terms_.max_ttl;
  if (most.count() == 0 || kept <= most) return;
  throw Failure(Failure::Kind::misconfigured,
                "a lease of " + for_people(kept) + " is longer than --max-ttl (" +
                    for_people(most) + "), for which a restarted server has no vote");
}

Call QuorumClaimant::votes_of_call(Call call) const {
  return {call.until - timeout_ / kept_for_releases, call.wakeup};
}

asio::awaitable<Answer> QuorumClaimant::ask(Queue queue, Wakeup& wakeup) {
  require_short_lease();
  const auto call = new_call(wakeup);
  const auto voting = votes_of_call(call);
  candidacy_.begin();
  has_joined_ = has_joined_ || queue == Queue::join;
  for (;;) {
    const auto began = Clock::now();
    votes_ = co_await vote(queue, voting);
    const auto took = std::chrono::ceil<milliseconds>(Clock::now() - began);
    auto step = candidacy_.after(votes_, queue, Clock::now(), took);
    if (step.then == CandidacyStep::Then::give_back) {
      co_await give_back_votes(call);
      co_await voting.within(step.pause).sleep();
    }
    if (step.then != CandidacyStep::Then::done && !voting.is_over()) continue;
    const bool is_over = step.then != CandidacyStep::Then::done;
    if (is_over) candidacy_.ran_out_of_time();
    const bool keeps_place = has_joined_ && queue != Queue::join;
    if (keeps_place) {
      if (step.undoes || is_over) co_await give_back_votes(call);
    } else if (step.undoes || (is_over && queue != Queue::join)) {
      co_await undo(call);
    }
    if (const auto* failure = std::get_if<Failure>(&step.said)) throw *failure;
    for (const auto& message : complaints_about(candidacy_.screened(votes_))) {
      complaints_->note(message);
    }
    auto& answer = std::get<Answer>(step.said);
    const auto* grant = std::get_if<Grant>(&answer);
    if (grant == nullptr) co_return answer;
    co_return co_await completed(*grant, step.servers, call);
  }
}

// Sets the lease up on servers that had granted it to claims that could not use it.
// Throws Failure if too few servers have it for --min-strength.
asio::awaitable<Grant> QuorumClaimant::completed(Grant grant, std::size_t servers,
                                                 Call call) {
  std::vector<bool> has_it;
  bool is_elsewhere = false;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const auto* vote = votes_[i].grant();
    has_it.push_back(vote != nullptr && vote->fence == grant.fence);
    is_elsewhere = is_elsewhere || (!has_it[i] && votes_[i].answer);
    seats_[i]->claimant.set_grant(grant);
    if (vote != nullptr && vote->broken) taken_by_ = seats_[i]->claimant.taken_by();
  }
  grant_ = grant;
  if (is_elsewhere) {
    const auto round = repair(has_it);
    const auto is_strong = [this, has_it,
                            servers](const FanOut<Answer>::Answers& answers) {
      return is_enough(servers + count_repaired(has_it, answers));
    };
    co_await round->wait_for_most(is_strong, votes_of_call(call));
    servers += count_repaired(has_it, round->answers());
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (!has_it[i]) votes_[i] = vote_of(*seats_[i], round->answers()[i]);
    }
  }
  grant.strength = strength(seats_.size(), servers);
  if (is_enough(servers)) co_return grant;
  // Not permanently: the claim may ask again, and must not be refused then.
  candidacy_.gave_back(grant.fence);
  grant_.reset();
  co_await give_back_votes(call);
  for (const auto& seat : seats_) seat->claimant.set_grant({});
  throw too_weak(*grant.strength, terms_.least_strength, servers, seats_.size());
}

bool QuorumClaimant::is_enough(std::size_t servers) const {
  return strength(seats_.size(), servers) >= static_cast<int>(terms_.least_strength);
}

std::size_t QuorumClaimant::count_repaired(const std::vector<bool>& has_it,
                                           const FanOut<Answer>::Answers& answers) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!has_it[i] && vote_of(*seats_[i], answers[i]).grant() != nullptr) ++count;
  }
  return count;
}

// Starts to set up the lease on servers where it is missing.
std::unique_ptr<FanOut<Answer>> QuorumClaimant::repair(const std::vector<bool>& has_it) {
  auto answers = failures_of_busy_voters();
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (has_it[i] && !answers[i]) answers[i] = Answer(Busy{});  // do not ask
  }
  const auto seats = seats_;
  const auto ballot = candidacy_.repair();
  const auto lease = *grant_;
  const auto ask_one = [=](std::size_t number, Wakeup& own) -> asio::awaitable<Answer> {
    auto& claimant = seats[number]->claimant;
    claimant.set_ballot(ballot);
    auto answer = co_await claimant.ask(Queue::stay_out, own);
    claimant.set_grant(lease);
    co_return answer;
  };
  return std::make_unique<FanOut<Answer>>(voters_, std::move(answers), ask_one);
}

// The votes of the last round. A server that does not reply keeps its vote until the
// claim ends.
asio::awaitable<void> QuorumClaimant::give_back_votes(Call call) {
  FanOut<std::monostate>::Answers answers(voters_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const bool is_ours = votes_[i].grant() != nullptr;
    if (!is_ours || !voters_[i]->is_idle()) answers[i] = std::monostate{};
  }
  const auto seats = seats_;
  const auto give_back = [seats](std::size_t number,
                                 Wakeup& own) -> asio::awaitable<std::monostate> {
    co_await seats[number]->claimant.release_grant(own);
    co_return std::monostate{};
  };
  FanOut<std::monostate> round(voters_, std::move(answers), give_back);
  co_await round.wait(until_all_answer, call);
}

// Releases votes that did not lead to a grant. Failures are ignored: the votes expire.
asio::awaitable<void> QuorumClaimant::undo(Call call) {
  const auto least = later(Clock::now(), redis::last_patience);
  const auto end = call.wakeup.gives_up() ? least : std::max(call.until, least);
  try {
    co_await release_until(end, std::nullopt);
  } catch (const Failure&) {
  }
}

// The holder releases the lock on a majority of servers, one of which is among these.
std::vector<std::size_t> QuorumClaimant::where_to_listen() const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (numbers.size() == in_every_majority(seats_.size())) break;
    const auto* busy = votes_[i].busy();
    if (busy != nullptr && busy->place > 0 && voters_[i]->is_idle()) {
      numbers.push_back(i);
    }
  }
  return numbers;
}

Clock::time_point QuorumClaimant::ask_again_at() const {
  auto moment = candidacy_.gives_way_at();
  for (const auto& vote : votes_) {
    // A vote to keep must be renewed.
    if (vote.grant() == nullptr) continue;
    moment = std::min(moment,
                      later(vote.grant()->sent_at, claim().ttl / vote_renewals_per_ttl));
  }
  for (const auto number : where_to_listen()) {
    moment = std::min(moment, seats_[number]->claimant.ask_again_at());
  }
  return moment;
}

asio::awaitable<void> QuorumClaimant::await_turn(Call call) {
  call.until = std::min(call.until, ask_again_at());
  const auto numbers = where_to_listen();
  if (numbers.empty()) {
    co_return co_await call.within(pause_without_servers).sleep();
  }
  FanOut<std::monostate>::Answers answers(voters_.size(), std::monostate{});
  for (const auto number : numbers) answers[number].reset();
  const auto listened = answers;
  const auto seats = seats_;
  const auto listen_to = [seats, until = call.until](
                             std::size_t number,
                             Wakeup& own) -> asio::awaitable<std::monostate> {
    co_await seats[number]->claimant.await_turn({until, own});
    co_return std::monostate{};
  };
  FanOut<std::monostate> round(voters_, std::move(answers), listen_to);
  const auto is_told = [listened](const FanOut<std::monostate>::Answers& now) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] && !listened[i]) return true;
    }
    return false;
  };
  std::optional<Failure> interrupted;
  try {
    co_await round.wait(is_told, {later(call.until, timeout_), call.wakeup});
    co_await round.wait(until_all_answer, call.wakeup.within(others_are_notified_within));
  } catch (const Failure& failure) {
    interrupted = failure;
  }
  // The next request also finds what this wait misses.
  for (std::size_t i = 0; i < voters_.size(); ++i) {
    if (!round.answers()[i]) voters_[i]->give_up();
  }
  if (interrupted) throw *interrupted;
  co_await round.wait(until_all_answer, new_call(call.wakeup));
}

}  // namespace dlock::redis_quorum
