// QuorumClaimant: keeping a lease, and releasing it.
#include <algorithm>

#include "store/redis_quorum/quorum_store.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

// How long a release waits for a server that does not reply.
constexpr milliseconds patience_with_silent{200};

// How long a break takes to reach all servers that reply.
constexpr milliseconds breaks_within{50};

// Whether some server says that the lease is broken, but too few.
bool is_broken_by_too_few(const RenewalReplies& answers) {
  const auto result = tally(answers);
  const auto* renewal = std::get_if<Renewal>(&result);
  if (renewal != nullptr && *renewal == Renewal::broken) return false;
  return std::any_of(answers.begin(), answers.end(), [](const auto& said) {
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

}  // namespace

// Not interrupted by `wakeup`: the lease is released nevertheless, within a short time.
asio::awaitable<Release> QuorumClaimant::release(const std::optional<RunEnd>& end,
                                                 Wakeup& wakeup) {
  return release_until(wakeup.last_request_until(timeout_, redis::last_patience), end);
}

asio::awaitable<Release> QuorumClaimant::release_until(Clock::time_point until,
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

// Servers without the run's lease may still have its place in the queue.
asio::awaitable<void> QuorumClaimant::leave_lines(const ReleaseReplies& returns,
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

asio::awaitable<RenewalReplies> QuorumClaimant::renew_everywhere(Call call) {
  const auto seats = seats_;
  const auto renew_one = [seats](std::size_t number, Wakeup& own) {
    return seats[number]->claimant.renew(own);
  };
  FanOut<Renewal>::Answers skipped(voters_.size());
  for (std::size_t i = 0; i < voters_.size(); ++i) {
    if (!voters_[i]->is_idle()) skipped[i] = voters_[i]->still_busy();
  }
  FanOut<Renewal> round(voters_, std::move(skipped), renew_one);
  const auto is_enough = [](const FanOut<Renewal>::Answers& answers) {
    return is_certain(answers);
  };
  co_await round.wait_for_most(is_enough, call);
  co_return round.answers();
}

asio::awaitable<Renewal> QuorumClaimant::renew(Wakeup& wakeup) {
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
  const bool is_whole = std::find(has_it.begin(), has_it.end(), false) == has_it.end();
  // In the background: it is not waited for.
  if (!is_lost && !is_whole && grant_ && claim().attached) repair(has_it);
  co_return renewal;
}

// Of the servers that have renewed the lease; for Claim::keeps_ttl.
milliseconds QuorumClaimant::least_ttl(const FanOut<Renewal>::Answers& answers) const {
  std::optional<milliseconds> least;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const auto* said = answers[i] ? std::get_if<Renewal>(&*answers[i]) : nullptr;
    if (said == nullptr || *said != Renewal::confirmed) continue;
    const auto ttl = seats_[i]->claimant.claim().ttl;
    least = std::min(least.value_or(ttl), ttl);
  }
  return least.value_or(claim().ttl);
}

std::unique_ptr<LeaseNews> QuorumClaimant::listen(std::function<void()> on_news) {
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

}  // namespace dlock::redis_quorum
