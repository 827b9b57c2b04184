// QuorumClaimant: waiting in the queues.
#include <algorithm>

#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/quorum_claimant.hpp"

namespace dlock::redis_quorum {
namespace {

// Within this time all servers have notified the waiters of a release.
constexpr milliseconds others_are_notified_within{10};

// The pause before the next attempt if no server can be reached.
constexpr milliseconds pause_without_servers{300};

// How often votes are renewed per ttl while another claim holds the lock.
constexpr int vote_renewals_per_ttl = 3;

}  // namespace

// The holder releases the lock on a majority of servers, one of which is among these.
std::vector<std::size_t> QuorumClaimant::where_to_listen() const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (numbers.size() == in_every_majority(seats_.size())) break;
    const auto* busy = votes_[i].busy();
    if (busy != nullptr && busy->place > 0 && members_[i]->is_idle()) {
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

asio::awaitable<void> QuorumClaimant::await_turn(Wakeup& wakeup,
                                                 Clock::time_point until) {
  until = std::min(until, ask_again_at());
  const auto numbers = where_to_listen();
  if (numbers.empty()) {
    until = std::min(until, later(Clock::now(), pause_without_servers));
    co_await wakeup.sleep_until(until);
    co_return;
  }
  Round<std::monostate>::Answers answers(members_.size(), std::monostate{});
  for (const auto number : numbers) answers[number].reset();
  const auto listened = answers;
  const auto seats = seats_;
  const auto listen_to = [seats, until](std::size_t number,
                                        Wakeup& own) -> asio::awaitable<std::monostate> {
    co_await seats[number]->claimant.await_turn(own, until);
    co_return std::monostate{};
  };
  Round<std::monostate> round(members_, std::move(answers), listen_to);
  const auto is_told = [listened](const Round<std::monostate>::Answers& now) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] && !listened[i]) return true;
    }
    return false;
  };
  std::optional<Failure> interrupted;
  try {
    co_await round.wait(is_told, later(until, timeout_), wakeup);
    co_await round.wait(until_all_answer, later(Clock::now(), others_are_notified_within),
                        wakeup);
  } catch (const Failure& failure) {
    interrupted = failure;
  }
  // The next request also finds what this wait misses.
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!round.answers()[i]) members_[i]->give_up();
  }
  if (interrupted) throw *interrupted;
  co_await round.wait(until_all_answer, budget_end(), wakeup);
}

}  // namespace dlock::redis_quorum
