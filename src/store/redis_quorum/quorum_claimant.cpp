#include "store/redis_quorum/quorum_claimant.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "store/fan_out.hpp"
#include "store/redis/redis_claimant.hpp"
#include "store/redis_quorum/candidacy.hpp"
#include "store/redis_quorum/tally.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::redis_quorum {
namespace {

// The part of a request's budget that is kept for releasing votes: one in this many.
constexpr int kept_for_releases = 4;

// Within this time all servers have notified the waiters of a release.
constexpr milliseconds others_are_notified_within{10};

// The pause before the next attempt if no server can be reached.
constexpr milliseconds pause_without_servers{300};

// How often votes are renewed per ttl while another claim holds the lock.
constexpr int vote_renewals_per_ttl = 3;

// How long a release waits for a server that does not reply.
constexpr milliseconds patience_with_silent{200};

// How long a break takes to reach all servers that reply.
constexpr milliseconds breaks_within{50};

// Whether some server says that the lease is broken, but too few.
bool is_broken_by_too_few(const RenewalReplies& answers) {
  const auto result = tally(answers);
  const auto* renewal = std::get_if<Renewal>(&result);
  if (renewal != nullptr && *renewal == Renewal::broken) return false;
  return std::ranges::any_of(answers, [](const auto& said) {
    const auto* one = said ? std::get_if<Renewal>(&*said) : nullptr;
    return one != nullptr && *one == Renewal::broken;
  });
}

// What several servers report about a lease.
class AllNews final : public LeaseNews {
 public:
  explicit AllNews(std::vector<std::unique_ptr<LeaseNews>> parts)
      : parts_(std::move(parts)) {}
  void stop() override {
    for (auto& part : parts_) part->stop();
  }

 private:
  std::vector<std::unique_ptr<LeaseNews>> parts_;
};

class QuorumClaimant final : public Claimant {
 public:
  QuorumClaimant(asio::io_context& context, const Voters& voters,
                 const QuorumTerms& terms, milliseconds timeout, const Claim& claim,
                 std::shared_ptr<Complaints> complaints)
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

  ~QuorumClaimant() override {
    for (const auto& voter : voters_) voter->give_up();
  }

  bool queues_at_once() const override { return true; }

  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override {
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

  asio::awaitable<void> await_turn(Call call) override {
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
      co_await round.wait(until_all_answer,
                          call.wakeup.within(others_are_notified_within));
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

  // Not interrupted by `wakeup`: the lease is released nevertheless, within a short time.
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override {
    return release_until(wakeup.last_request_until(timeout_, redis::last_patience), end);
  }

  asio::awaitable<Renewal> renew(Wakeup& wakeup) override {
    require_short_lease();
    const auto call = new_call(wakeup);
    auto answers = co_await renew_everywhere(call);
    if (is_broken_by_too_few(answers)) {
      // A break may just be reaching the servers.
      co_await call.within(breaks_within).sleep();
      answers = co_await renew_everywhere(call);
      if (is_broken_by_too_few(answers)) {
        complaints_->note("a single server reports that the lock was broken");
      }
    }
    note_silent(answers);
    const auto said = tally(answers);
    if (const auto* failure = std::get_if<Failure>(&said)) throw *failure;
    const auto renewal = std::get<Renewal>(said);
    const bool is_lost = renewal == Renewal::gone || renewal == Renewal::taken_over;
    std::vector<bool> has_it;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (const auto& taker = seats_[i]->claimant.taken_by()) taken_by_ = taker;
      has_it.push_back(!is_missing(answers[i]));
    }
    keep_ttl(least_ttl(answers));
    const bool is_whole = std::ranges::find(has_it, false) == has_it.end();
    // In the background: it is not waited for.
    if (!is_lost && !is_whole && grant_ && claim().attached) repair(has_it);
    co_return renewal;
  }

  std::optional<Taker> taken_by() const override { return taken_by_; }

  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override {
    if (!claim().attached) return nullptr;  // those are not notified
    std::vector<std::unique_ptr<LeaseNews>> parts;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (parts.size() == in_every_majority(seats_.size())) break;
      const auto* vote = votes_[i].grant();
      if (vote == nullptr || vote->fence != grant_->fence) continue;
      parts.push_back(seats_[i]->claimant.listen(on_news));
    }
    return std::make_unique<AllNews>(std::move(parts));
  }

 private:
  // The claim on one server. It lives as long as a request is in progress there.
  struct Seat {
    Seat(std::shared_ptr<Voter> of, const Claim& claim)
        : voter(std::move(of)), claimant(voter->context(), voter->route(), claim) {}

    std::shared_ptr<Voter> voter;
    redis::RedisClaimant claimant;
  };
  using Seats = std::vector<std::shared_ptr<Seat>>;

  // Throws Failure if a restarted server could vote before the lease ends.
  void require_short_lease() const {
    const auto kept = claim().ttl + claim().lock_delay;
    const auto most = terms_.max_ttl;
    if (most.count() == 0 || kept <= most) return;
    throw Failure::misconfigured("a lease of " + for_people(kept) +
                                 " is longer than --max-ttl (" + for_people(most) +
                                 "), for which a restarted server has no vote");
  }

  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }
  // The part of a call that waits for votes. The rest is for releasing those that were of
  // no use.
  Call votes_of_call(Call call) const {
    return {call.until - timeout_ / kept_for_releases, call.wakeup};
  }

  static Vote vote_of(const Seat& seat, const MaybeReply<Answer>& said) {
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

  Votes votes_of(const FanOut<Answer>::Answers& answers) const {
    Votes votes;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      votes.push_back(vote_of(*seats_[i], answers[i]));
    }
    return votes;
  }

  // A slow server gets no further request while its reply to the earlier one may arrive.
  template <typename T>
  typename FanOut<T>::Answers failures_of_busy_voters() const {
    typename FanOut<T>::Answers answers(voters_.size());
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      if (!voters_[i]->is_idle()) answers[i] = voters_[i]->still_busy();
    }
    return answers;
  }

  asio::awaitable<Votes> vote(Queue queue, Call call) {
    const auto ballot = candidacy_.ballot(wall_now());
    const auto seats = seats_;
    const auto ask_one = [seats, queue, ballot](std::size_t number, Wakeup& own) {
      seats[number]->claimant.set_ballot(ballot);
      return seats[number]->claimant.ask(queue, own);
    };
    FanOut<Answer> round(voters_, failures_of_busy_voters<Answer>(), ask_one);
    const auto is_enough = [this](const FanOut<Answer>::Answers& answers) {
      return is_certain(candidacy_.screened(votes_of(answers)));
    };
    co_await round.wait_for_most(is_enough, call);
    note_silent(round.answers());
    co_return votes_of(round.answers());
  }

  // The votes of the last round. A server that does not reply keeps its vote until the
  // claim ends.
  asio::awaitable<void> give_back_votes(Call call) {
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

  // Sets the lease up on servers that had granted it to claims that could not use it.
  // Throws Failure if too few servers have it for --min-strength.
  asio::awaitable<Grant> completed(Grant grant, std::size_t servers, Call call) {
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
    throw Failure::unreachable(
        std::to_string(servers) + " of " + std::to_string(seats_.size()) +
        " servers grant the lock: strength " + std::to_string(*grant.strength) +
        " is below --min-strength " + std::to_string(terms_.least_strength));
  }

  bool is_enough(std::size_t servers) const {
    return strength(seats_.size(), servers) >= static_cast<int>(terms_.least_strength);
  }

  std::size_t count_repaired(const std::vector<bool>& has_it,
                             const FanOut<Answer>::Answers& answers) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (!has_it[i] && vote_of(*seats_[i], answers[i]).grant() != nullptr) ++count;
    }
    return count;
  }

  // Starts to set up the lease on servers where it is missing.
  std::unique_ptr<FanOut<Answer>> repair(const std::vector<bool>& has_it) {
    auto answers = failures_of_busy_voters<Answer>();
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

  // Servers without the run's lease may still have its place in the queue.
  asio::awaitable<void> leave_lines(const ReleaseReplies& returns,
                                    Clock::time_point until) {
    auto answers = returns;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto* said = answers[i] ? std::get_if<Release>(&*answers[i]) : nullptr;
      if (said != nullptr && loss_found_by(*said)) {
        answers[i].reset();
      } else if (!answers[i]) {
        answers[i] = voters_[i]->still_busy();
      }
    }
    const auto seats = seats_;
    const std::optional<RunEnd> none;
    const auto leave = [seats, none](std::size_t number, Wakeup& own) {
      return seats[number]->claimant.release(none, own);
    };
    FanOut<Release> round(voters_, std::move(answers), leave);
    Wakeup own(context_);
    co_await round.wait(until_all_answer, {until, own});
  }

  asio::awaitable<Release> release_until(Clock::time_point until,
                                         const std::optional<RunEnd>& end) {
    const auto seats = seats_;
    const auto release_one = [seats, end](std::size_t number, Wakeup& own) {
      return seats[number]->claimant.release(end, own);
    };
    FanOut<Release> round(voters_, release_one);
    Wakeup own(context_);
    const Call call{until, own};
    const auto silent = is_silent_;
    const auto is_enough = [silent](const FanOut<Release>::Answers& answers) {
      for (std::size_t i = 0; i < answers.size(); ++i) {
        if (!answers[i] && !silent[i]) return false;
      }
      return true;
    };
    co_await round.wait(is_enough, call);
    co_await round.wait(until_all_answer, call.within(patience_with_silent));
    note_silent(round.answers());
    const bool relied = end && !end->lost && grant_;
    const auto said = tally(round.answers(), relied);
    if (const auto* failure = std::get_if<Failure>(&said)) throw *failure;
    const auto released = std::get<Release>(said);
    if (released == Release::broken) {
      for (const auto& seat : seats_) {
        if (const auto& taker = seat->claimant.taken_by()) taken_by_ = taker;
      }
    }
    if (loss_found_by(released)) co_return released;  // and to be released again
    co_await leave_lines(round.answers(), until);
    candidacy_.forget();
    has_joined_ = false;
    votes_.assign(seats_.size(), {});
    grant_.reset();
    co_return released;
  }

  // Releases votes that did not lead to a grant. Failures are ignored: the votes expire.
  asio::awaitable<void> undo(Call call) {
    const auto least = later(Clock::now(), redis::last_patience);
    const auto end = call.wakeup.gives_up() ? least : std::max(call.until, least);
    try {
      co_await release_until(end, std::nullopt);
    } catch (const Failure&) {
    }
  }

  template <typename T>
  void note_silent(const std::vector<MaybeReply<T>>& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      is_silent_[i] = !answers[i] || std::holds_alternative<Failure>(*answers[i]);
    }
  }

  // Of the servers that have renewed the lease; for Claim::keeps_ttl.
  milliseconds least_ttl(const FanOut<Renewal>::Answers& answers) const {
    std::optional<milliseconds> least;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const auto* said = answers[i] ? std::get_if<Renewal>(&*answers[i]) : nullptr;
      if (said == nullptr || *said != Renewal::confirmed) continue;
      const auto ttl = seats_[i]->claimant.claim().ttl;
      least = std::min(least.value_or(ttl), ttl);
    }
    return least.value_or(claim().ttl);
  }

  asio::awaitable<RenewalReplies> renew_everywhere(Call call) {
    const auto seats = seats_;
    const auto renew_one = [seats](std::size_t number, Wakeup& own) {
      return seats[number]->claimant.renew(own);
    };
    FanOut<Renewal> round(voters_, failures_of_busy_voters<Renewal>(), renew_one);
    const auto is_enough = [](const FanOut<Renewal>::Answers& answers) {
      return is_certain(answers);
    };
    co_await round.wait_for_most(is_enough, call);
    co_return round.answers();
  }

  // The holder releases the lock on a majority of servers, one of which is among these.
  std::vector<std::size_t> where_to_listen() const {
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

  Clock::time_point ask_again_at() const {
    auto moment = candidacy_.gives_way_at();
    for (const auto& vote : votes_) {
      // A vote to keep must be renewed.
      if (vote.grant() == nullptr) continue;
      moment = std::min(
          moment, later(vote.grant()->sent_at, claim().ttl / vote_renewals_per_ttl));
    }
    for (const auto number : where_to_listen()) {
      moment = std::min(moment, seats_[number]->claimant.ask_again_at());
    }
    return moment;
  }

  asio::io_context& context_;
  Voters voters_;
  QuorumTerms terms_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
  Seats seats_;
  Candidacy candidacy_;
  Votes votes_;                  // of the last round
  std::vector<bool> is_silent_;  // did not reply to the last request
  bool has_joined_ = false;      // a queue on some server
  std::optional<Grant> grant_;
  std::optional<Taker> taken_by_;
};

}  // namespace

std::unique_ptr<Claimant> claimant_of(asio::io_context& context, const Voters& voters,
                                      const QuorumTerms& terms, milliseconds timeout,
                                      const Claim& claim,
                                      std::shared_ptr<Complaints> complaints) {
  return std::make_unique<QuorumClaimant>(context, voters, terms, timeout, claim,
                                          std::move(complaints));
}

}  // namespace dlock::redis_quorum
