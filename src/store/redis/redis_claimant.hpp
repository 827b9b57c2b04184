// A claim on a lock on a Redis or Valkey server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lock/claimant.hpp"
#include "loop/wakeup.hpp"
#include "store/redis/route.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::redis {

struct AskReply;
class BreakListener;
class Lookout;

class RedisClaimant final : public Claimant {
 public:
  // `route` must outlive this.
  RedisClaimant(asio::io_context& context, Route& route, const Claim& claim);
  ~RedisClaimant() override;

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;

  // The following is for a claim on several independent servers, of which this is one. A
  // grant here is one vote; the lease is what the servers agree on.

  // Sets the ballot that further requests carry.
  void set_ballot(const Ballot& ballot) { ballot_ = ballot; }
  // Sets the lease to renew and release, whether or not this server has it.
  void set_grant(const Grant& grant) { grant_ = grant; }
  // Releases the lease that was granted last, but not a newer one nor the place in the
  // queue; the claim may ask again. Throws Failure.
  asio::awaitable<void> release_grant(Wakeup& wakeup);
  // The server's time when it last replied that the lock is busy.
  WallTime busy_at() const { return busy_at_; }
  // When to ask again even if await_turn() was not notified.
  Clock::time_point ask_again_at() const { return ask_again_; }

 private:
  asio::awaitable<Release> give_back(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<Response> release_for_good(const std::vector<std::string>& args,
                                             Call call);
  asio::awaitable<void> make_certain(const Response& response, Clock::time_point began,
                                     Call call);
  asio::awaitable<void> check_replicas(const Response& response, Call call);
  asio::awaitable<Renewal> renew_within_budget(Wakeup& wakeup);
  asio::awaitable<void> leave(Node& node, Call call);
  void look_out();
  void use_instead(const ServerAddress& server);
  asio::awaitable<Response> set_lease(Call call);
  asio::awaitable<Renewal> found_lost(Renewal said, const Response& response, Call call);
  asio::awaitable<Renewal> reclaim(Call call);
  asio::awaitable<std::optional<Reply>> pop(Call call);
  void note(const AskReply& reply, Clock::time_point sent_at);
  void note_grant(const AskReply& reply);
  void watch_for(const Busy& busy, const AskReply& reply);
  void expect_answer();

  asio::io_context& context_;
  Route& route_;
  Node* confirmed_by_ = nullptr;  // confirmed the grant or the last renewal
  std::weak_ptr<BreakListener> listener_;
  std::weak_ptr<const std::function<void()>> on_news_;  // of the keeper that listens
  std::unique_ptr<Lookout> lookout_;                    // since a renewal began
  Node* asked_ = nullptr;                               // by the renewal in progress
  Wakeup* renewing_ = nullptr;                          // interrupts it

  // What the server may have stored of the claim.
  enum class Known { nothing, answered, unanswered };
  Known known_ = Known::nothing;
  bool may_come_late_ = false;  // an unanswered request may still arrive
  std::string waiter_id_;       // names the list that announces our turn
  std::int64_t arrived_ = 0;    // when we entered the queue, by the server's clock
  Clock::time_point ask_again_;
  bool is_parked_ = false;  // until then, without a connection
  Restraint restraint_;
  std::optional<Ballot> ballot_;
  WallTime busy_at_{};
  Clock::time_point asked_at_;           // when the last answered request was sent
  std::optional<AskReply> handed_over_;  // received on the list
  Node* handed_over_by_ = nullptr;       // the server of that list
  Grant grant_;                          // ours until it is released
  std::string after_;                    // names the grant before it, if that is known
  Fence fence_floor_;                    // the next grant has to have a greater fence
  std::optional<Fence> recorded_;  // of the last run whose end the server has recorded
  std::optional<Taker> taken_by_;
};

}  // namespace dlock::redis
