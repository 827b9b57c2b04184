// A claim on a lock that an etcd cluster keeps.
//
// What it decides by are the rules of line.hpp, what it writes the transactions of
// steps.hpp. Here is in which order, and what is known of the lease meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lock/claimant.hpp"
#include "store/etcd/calls.hpp"
#include "store/etcd/day_lease.hpp"
#include "store/etcd/decision.hpp"
#include "store/etcd/steps.hpp"

namespace dlock::etcd {

class EtcdClaimant final : public Claimant {
 public:
  // `calls` has to be there for longer.
  EtcdClaimant(Calls& calls, const Claim& claim);
  ~EtcdClaimant() override;

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Wakeup& wakeup, Clock::time_point until) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> heard) override;

 private:
  // What is common to the steps of one call.
  struct Turn {
    Queue queue = Queue::stay_out;
    Clock::time_point until;
    Wakeup& wakeup;
    Line line;  // as it was read last
  };

  // etcd_claimant.cpp: from the first look to the answer
  asio::awaitable<std::optional<Answer>> begin(Turn& turn);
  asio::awaitable<std::optional<Answer>> ask_as_waiter(Turn& turn);
  asio::awaitable<std::optional<Answer>> go_on(Turn& turn);
  asio::awaitable<std::optional<Answer>> enter_as(const Decision& decision, Turn& turn);
  asio::awaitable<void> join_as(const Decision& decision, Turn& turn);
  asio::awaitable<std::optional<Answer>> wait_as(const Decision& decision, Turn& turn);
  asio::awaitable<Answer> leave_with(const Decision& decision, Turn& turn);
  asio::awaitable<std::optional<Answer>> hold_again(Turn& turn);
  asio::awaitable<Answer> entered(Entry own, const TxnResult& result, const Line& line,
                                  Turn& turn);
  asio::awaitable<TxnResult> write(TxnRequest request, Turn& turn);
  asio::awaitable<void> count(Turn& turn);
  void adopt(const Line& line);

  // etcd_looking.cpp
  asio::awaitable<void> look(Turn& turn);
  asio::awaitable<void> glance(Turn& turn);
  asio::awaitable<void> glance_with_lease(Turn& turn);
  TxnRequest first_look() const;
  asio::awaitable<void> take_first_look(const TxnResult& result, Turn& turn);

  // etcd_lease.cpp: the lease that the entry hangs on
  asio::awaitable<void> have_lease(Turn& turn);
  bool take_granted(const LeaseGrantResult& granted, Clock::time_point sent_at);
  asio::awaitable<std::optional<Entry>> extend(Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<Clock::time_point> hang_on_new_lease(Entry& entry, Turn& turn);
  asio::awaitable<std::optional<Entry>> move_to_new_lease(const Entry& entry, Turn& turn);
  asio::awaitable<Renewal> renew_detached(Turn& turn);
  std::optional<Entry> entry_on(std::int64_t lease, const TxnResult& result, Turn& turn);
  asio::awaitable<Renewal> found_lost(Turn& turn);
  asio::awaitable<bool> set_up_again(Turn& turn);
  void forget_lease();

  // etcd_release.cpp
  asio::awaitable<Release> give_back(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<std::optional<Release>> end_lease(const std::optional<RunEnd>& end,
                                                    Turn& turn);
  asio::awaitable<bool> free_unrecorded(const std::optional<RunEnd>& end, Turn& turn);
  asio::awaitable<Release> end_without(const std::optional<RunEnd>& end, Turn& turn);
  asio::awaitable<std::int64_t> lease_to_keep_on(const std::optional<RunEnd>& end,
                                                 Turn& turn);
  asio::awaitable<void> forget_runs(Turn& turn);
  asio::awaitable<void> revoke(std::int64_t lease, Turn& turn);

  // etcd_waiting.cpp
  asio::awaitable<void> listen_for_turn(Wakeup& wakeup, Clock::time_point until);
  asio::awaitable<bool> start_watch(Wakeup& wakeup);

  Scene scene() const;
  Entry fresh_entry() const;
  std::string id() const;

  Calls& calls_;
  DayLease day_lease_;

  unsigned times_ = 0;      // that it was given back
  std::int64_t lease_ = 0;  // that was asked for; 0: none
  // When the request was sent by which the lease lasts; nothing if none was confirmed.
  std::optional<Clock::time_point> lasts_from_;
  std::optional<Entry> own_;  // in line, as far as is known
  // Whether any reader was in line when that was looked at: one that stands behind may
  // hold beside those in front.
  bool saw_readers_ = true;
  std::optional<Answer> told_;  // that it does not wait any more, until it is released
  std::optional<Taker> taken_by_;
  Clock::time_point granted_at_;
  std::int64_t runs_kept_ = 0;  // when it was given back

  std::unique_ptr<Watch> watch_;
  Watched watched_;
  std::optional<Line> waits_in_;  // as it was when it was told to wait
};

}  // namespace dlock::etcd
