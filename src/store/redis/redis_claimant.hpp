// A claim on a lock that a Redis or Valkey server keeps.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lock/claimant.hpp"
#include "store/redis/ballot.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

struct Heard;
class Listener;

class RedisClaimant final : public Claimant {
 public:
  // `route` has to be there for longer.
  RedisClaimant(asio::io_context& context, Route& route, const Claim& claim);

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Wakeup& wakeup, Clock::time_point until) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> heard) override;

  // For a claim that is put to several independent servers, of which this is one. What it
  // is granted here is one vote, and the lease is what they have agreed upon.

  // What to ask with from now on.
  void bring(const Ballot& ballot) { ballot_ = ballot; }
  // The lease that is to be renewed and released, whether or not this server has it.
  void rely_on(const Grant& grant) { grant_ = grant; }
  // Gives back the lease that was granted last, and neither a newer one nor a place in
  // line; the claim may ask again. Throws Failure.
  asio::awaitable<void> give_back_grant(Wakeup& wakeup);
  // The server's time when it last said that the lock is busy.
  WallTime busy_at() const { return busy_at_; }
  // When to ask again though await_turn() was told nothing.
  Clock::time_point ask_again_at() const { return ask_again_; }

 private:
  asio::awaitable<Release> give_back(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<Response> tell_all(const std::vector<std::string>& args,
                                     Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<void> make_certain(const Response& response, Clock::time_point began,
                                     Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<void> check_replicas(const Response& response, Clock::time_point until,
                                       Wakeup& wakeup);
  asio::awaitable<Response> set_lease(Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<bool> is_denied(Inquiry& inquiry, Clock::time_point until,
                                  Wakeup& wakeup);
  asio::awaitable<Renewal> found_lost(Renewal said, const Response& response,
                                      Clock::time_point until, Wakeup& wakeup);
  bool is_elsewhere(const Response& response) const;
  asio::awaitable<Renewal> reclaim(Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<std::optional<Reply>> pop(Wakeup& wakeup, Clock::time_point end);
  asio::awaitable<void> nap(Wakeup& wakeup, Clock::time_point until);
  void note(const Heard& heard, Clock::time_point sent_at);
  void watch_for(const Busy& busy, std::int64_t blocked_for);
  void expect_answer();

  asio::io_context& context_;
  Route& route_;
  Node* confirmed_by_ = nullptr;  // the grant, or its last renewal
  std::weak_ptr<Listener> listener_;

  // What the server may know of the claim.
  enum class Known { nothing, answered, unanswered };
  Known known_ = Known::nothing;
  bool may_come_late_ = false;  // a request before the last one, which had no answer
  std::string waiter_id_;       // names the list on which we are told of a promise
  std::int64_t arrived_ = 0;    // when we got our place in the queue, by the server
  Clock::time_point ask_again_;
  std::optional<Ballot> ballot_;
  WallTime busy_at_{};
  Clock::time_point asked_at_;   // what was answered last
  std::optional<Grant> handed_;  // that came on the list
  Node* handed_by_ = nullptr;    // whose list that was
  Grant grant_;                  // ours, until it is given back
  std::optional<Taker> taken_by_;
};

}  // namespace dlock::redis
