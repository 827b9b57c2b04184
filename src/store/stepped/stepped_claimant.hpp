// A claim in a store that is built on the rules.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>

#include "lock/claimant.hpp"
#include "loop/wakeup.hpp"
#include "rules/state.hpp"
#include "store/stepped/state_store.hpp"

namespace dlock::stepped {

// For the last step of a caller that wants to exit: two round trips, also of a distant
// client.
constexpr milliseconds last_patience{250};

// What such a store keeps of a token: enough to recognize it, and not enough to renew or
// release the lease, for whoever may only read.
Token kept_token(const Token& token);

class SteppedClaimant final : public Claimant {
 public:
  SteppedClaimant(asio::io_context& context, StateStore& states, const Claim& claim);

  // Each step reads first anyway.
  bool queues_at_once() const override { return true; }
  bool bounds_its_queues() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;

 private:
  Call new_call(Wakeup& wakeup) const { return wakeup.within(states_.timeout()); }
  void note(const Answer& answer, const StateStore::Snapshot& read,
            const rules::State& state);
  void note_taker(const rules::State& state);
  void rest_until_renewal();
  asio::awaitable<Renewal> renew_once(const Claim& kept, Call call);
  // A lease that vanished by a failover is restored unasked.
  asio::awaitable<Renewal> found_lost(Renewal said, Call call);

  asio::io_context& context_;
  StateStore& states_;
  Claim kept_;  // as the store knows it
  rules::Party party_;
  std::optional<rules::Holder> granted_;  // as it was when granted
  std::optional<Taker> taken_by_;
  Clock::time_point ask_again_;
  Restraint restraint_;
  bool may_be_known_ = false;     // to the store, which has to forget the claim
  bool unanswered_ = false;       // see take()
  std::size_t place_ = 0;         // in the queue
  std::uint64_t epoch_ = 0;       // of the server that has confirmed the lease
  bool has_failed_over_ = false;  // the server of the last step lacks its confirmation
  bool is_parked_ = false;        // until it asks again
};

}  // namespace dlock::stepped
