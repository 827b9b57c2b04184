// A claim on a lock in an etcd cluster.
//
// It decides as etcd_queue.hpp says and writes the transactions of etcd_steps.hpp.
// This class determines their order and tracks the lease.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/etcd/etcd_lease.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_steps.hpp"

namespace dlock::etcd {

class EtcdClaimant final : public Claimant {
 public:
  // `calls` must outlive this.
  EtcdClaimant(EtcdCalls& calls, const Claim& claim);
  ~EtcdClaimant() override;

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;

 private:
  // Shared by the steps of one call.
  struct CallContext : Call {
    Queue queue = Queue::stay_out;
    LockSnapshot snapshot = {};  // as last read
  };

  // When it was requested, and the term in which it was granted.
  struct NewLease {
    Clock::time_point sent_at;
    std::int64_t id = 0;
    std::uint64_t term = 0;
  };

  // From the first read to the answer
  asio::awaitable<std::optional<Answer>> begin(CallContext& call);
  asio::awaitable<std::optional<Answer>> ask_as_waiter(CallContext& call);
  asio::awaitable<std::optional<Answer>> proceed(CallContext& call);
  asio::awaitable<std::optional<Answer>> enter_as(const Decision& decision,
                                                  CallContext& call);
  asio::awaitable<void> join_as(const Decision& decision, CallContext& call);
  asio::awaitable<std::optional<Answer>> wait_as(const Decision& decision,
                                                 CallContext& call);
  asio::awaitable<Answer> leave_with(const Decision& decision, CallContext& call);
  asio::awaitable<std::optional<Answer>> resume_holding(CallContext& call);
  asio::awaitable<Answer> entered(QueueEntry own, const TxnResult& result,
                                  const std::optional<Taker>& taken_by,
                                  CallContext& call);
  Grant grant_of(const QueueEntry& entry) const;
  asio::awaitable<TxnResult> write(TxnRequest request, CallContext& call);
  asio::awaitable<void> count(CallContext& call);
  void adopt(const LockSnapshot& snapshot);

  // What it reads before it decides.
  asio::awaitable<void> look(CallContext& call);
  asio::awaitable<void> glance(CallContext& call);
  asio::awaitable<void> glance_with_lease(CallContext& call);
  TxnRequest first_look() const;
  asio::awaitable<void> take_first_look(const TxnResult& result, CallContext& call);

  // The lease to which the entry is attached
  asio::awaitable<void> have_lease(CallContext& call);
  asio::awaitable<void> replace_lease(CallContext& call);
  static NewLease new_lease(const LeaseGrantResult& granted, std::int64_t seconds,
                            Clock::time_point sent_at);
  asio::awaitable<NewLease> grant_lease(std::int64_t seconds, CallContext& call);
  bool is_renewed_by(const LeaseKeepAliveResult& alive, const TxnResult& written) const;
  asio::awaitable<std::optional<QueueEntry>> extend(Call call);
  asio::awaitable<std::optional<QueueEntry>> move_to_new_lease(const QueueEntry& entry,
                                                               CallContext& call);
  asio::awaitable<Renewal> renew_detached(CallContext& call);
  std::optional<QueueEntry> written_by(const TxnResult& result, QueueEntry entry,
                                       CallContext& call);
  asio::awaitable<Renewal> found_lost(CallContext& call);
  asio::awaitable<bool> set_up_again(CallContext& call);
  void use(const NewLease& fresh);
  void change_lease(std::int64_t to);
  void forget_lease() { change_lease(0); }
  asio::awaitable<std::optional<Failure>> revoke_former_leases(CallContext& call);

  // The end of the lease.
  asio::awaitable<Release> give_back(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<std::optional<Release>> end_lease(const std::optional<RunEnd>& end,
                                                    CallContext& call);
  asio::awaitable<bool> free_unrecorded(const std::optional<RunEnd>& end,
                                        CallContext& call);
  asio::awaitable<Release> end_without(const std::optional<RunEnd>& end,
                                       CallContext& call);
  asio::awaitable<std::int64_t> lease_to_keep_on(const std::optional<RunEnd>& end,
                                                 CallContext& call);
  asio::awaitable<void> forget_runs(CallContext& call);

  // The watch for its turn
  asio::awaitable<void> listen_for_turn(Call call);
  asio::awaitable<bool> start_watch(Wakeup& wakeup);

  StepContext step_context() const;
  QueueEntry fresh_entry() const;
  std::string id() const;

  EtcdCalls& calls_;
  DayLease day_lease_;

  unsigned times_ = 0;            // how often it was released
  std::int64_t lease_ = 0;        // 0: none is known
  std::uint64_t lease_term_ = 0;  // in which it was surely granted; 0: not known
  // Leases that were its own before, and may still exist. They are not used again.
  std::set<std::int64_t> former_leases_;
  // When the last confirmed grant or renewal was sent; nothing if none was confirmed.
  std::optional<Clock::time_point> lasts_from_;
  std::optional<QueueEntry> own_;  // in the queue, as far as is known
  // Whether the last snapshot contained a reader: a reader further back may hold the lock
  // together with those in front.
  bool saw_readers_ = true;
  std::optional<Answer>
      final_answer_;  // why it no longer waits; kept until it is released
  std::optional<Taker> taken_by_;
  Clock::time_point granted_at_;
  std::int64_t runs_kept_ = 0;  // recorded runs as of its release

  std::unique_ptr<KeyWatch> watch_;
  unsigned quick_wakes_ = 0;  // in a row, waits for its turn that were over at once
  WatchedKeys watched_;
  std::optional<LockSnapshot> waits_in_;  // as of the decision to wait
};

}  // namespace dlock::etcd
