// A claim on a lock of a quorum.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lock/claimant.hpp"
#include "store/redis/redis_claimant.hpp"
#include "store/redis_quorum/candidacy.hpp"
#include "store/redis_quorum/tally.hpp"
#include "store/redis_quorum/voter.hpp"

namespace dlock::redis_quorum {

// It carries out the decisions of Candidacy and tally(): it asks all servers at once,
// counts the votes, and releases them if they are too few.
class QuorumClaimant final : public Claimant {
 public:
  QuorumClaimant(asio::io_context& context, const Voters& voters,
                 const QuorumTerms& terms, milliseconds timeout, const Claim& claim,
                 std::shared_ptr<Complaints> complaints);
  ~QuorumClaimant() override;

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;

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
  void require_short_lease() const;
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }
  // The part of a call that waits for votes. The rest is for releasing those that were of
  // no use.
  Call votes_of_call(Call call) const;
  static Vote vote_of(const Seat& seat, const MaybeReply<Answer>& said);
  Votes votes_of(const FanOut<Answer>::Answers& answers) const;
  FanOut<Answer>::Answers failures_of_busy_voters() const;
  asio::awaitable<Votes> vote(Queue queue, Call call);
  asio::awaitable<void> give_back_votes(Call call);
  asio::awaitable<Grant> completed(Grant grant, std::size_t servers, Call call);
  bool is_enough(std::size_t servers) const;  // for --min-strength
  std::size_t count_repaired(const std::vector<bool>& has_it,
                             const FanOut<Answer>::Answers& answers) const;
  std::unique_ptr<FanOut<Answer>> repair(const std::vector<bool>& has_it);
  asio::awaitable<void> leave_lines(const ReleaseReplies& returns,
                                    Clock::time_point until);
  asio::awaitable<Release> release_until(Clock::time_point until,
                                         const std::optional<RunEnd>& end);
  asio::awaitable<void> undo(Call call);
  template <typename T>
  void note_silent(const std::vector<MaybeReply<T>>& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      is_silent_[i] = !answers[i] || std::holds_alternative<Failure>(*answers[i]);
    }
  }
  milliseconds least_ttl(const FanOut<Renewal>::Answers& answers) const;
  asio::awaitable<RenewalReplies> renew_everywhere(Call call);
  std::vector<std::size_t> where_to_listen() const;
  Clock::time_point ask_again_at() const;

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

}  // namespace dlock::redis_quorum
