// One claim on a lock, from the first request to the release.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"

namespace dlock {

// Notifications about a lease, until this object is destroyed.
class LeaseNews {
 public:
  virtual ~LeaseNews() = default;

  // Whether notifications are interrupted at the moment, so that the lease has to be
  // checked periodically.
  virtual bool is_interrupted() const { return false; }

  // Stops the notifications. Whatever takes time to shut down is left to the destructor.
  virtual void stop() {}
};

// Created by a store for one claim; the store must outlive it. Each call is one atomic
// step in the store, one at a time. What Store says of outcomes and failures holds here,
// too.
class Claimant {
 public:
  explicit Claimant(const Claim& claim) : claim_(claim) {}
  virtual ~Claimant() = default;
  Claimant(const Claimant&) = delete;
  Claimant& operator=(const Claimant&) = delete;

  const Claim& claim() const { return claim_; }

  // Whether asking with Queue::join at once costs no more than asking first whether the
  // lock is free.
  virtual bool queues_at_once() const { return false; }

  // Whether its queues have a greatest length, so that a claim without a place in the
  // queue is to ask again. Elsewhere such a claim cannot get one any more.
  virtual bool bounds_its_queues() const { return false; }

  // Grants the lock if it is free, promised to this claim or already its own (then with
  // the same fence, and again for its full ttl if the lease can expire). A newcomer never
  // overtakes a waiter. With Queue::join a claim that is not granted is in the queue
  // afterwards. With Queue::refuse a claim that gets Busy is counted as refused in the
  // same step; it keeps its place, if it has one, until it is released. A lease that can
  // expire is kept for the claim's ttl plus its lock delay; the grant's deadline covers
  // only the ttl. Throws Failure (interrupted) when `wakeup` gives up.
  //
  // With `claim.dedupe` the answer is Deduplicated if another run counts as the requested
  // one: the run in progress, or the last one that started less than the window ago by
  // the store's clock, on any host. With retry_failed only a success counts, and with
  // Queue::join the run in progress has to end first. A claim that is already waiting
  // leaves the queue, and is woken, in the step in which such a run starts or ends. These
  // do not count as runs: detached and shared grants, grants of further slots, grants
  // released before anything ran, runs that lost the lock or are about to, and commands
  // that could not be started. A claim that joins leaves the queue in the step in which a
  // shared run ends (RunEnd::is_shared); no other run counts for it.
  //
  // With `claim.max_queue` the claim does not enter a queue that already has that many
  // waiters: it gets Busy without a position and is counted as refused. A claim that is
  // in the queue stays there. A store may bound its queues: then a claim beyond that gets
  // Busy without a position, and has to ask again.
  //
  // A claim that `supersedes` and enters the queue, or is granted the lock at once, ends
  // the wait of the older superseding claim, even if that one was promised the lock: the
  // older one leaves the queue, is counted and is woken in the same step, and gets
  // Superseded from then on.
  //
  // The queue is in the order of `claim.priority`, and of arrival among equals. A claim
  // with a greater number overtakes no other, and a promise that was made stays. Waiters
  // that `claim.spreads` keeps from the lock are passed over by others, and keep their
  // places; whether the holders on their hosts spread as well does not matter.
  //
  // While a claim that `replaces` waits, no other claim keeps the lock. Holders at the
  // time when the claim enters the queue or asks again lose the lock as with
  // Store::break_leases, except outer runs of the claim. A claim that is granted the lock
  // while the replacing claim is in the queue, and was not promised the lock itself, gets
  // it already broken (Grant::broken), in the same step. A detached lease is granted as
  // it is, and the replacing claim is woken to take it.
  virtual asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) = 0;

  // Sleeps until it is useful to ask again, until `until`, or until `wakeup` gives up.
  // May return early. Only valid after ask(Queue::join) returned Busy.
  virtual asio::awaitable<void> await_turn(Call call) = 0;

  // Frees the lock if this claim holds it, hands it over to the next waiter in the same
  // step, and takes the claim out of the queue. `end` is recorded as the last run;
  // without it nothing is recorded, because the grant was released before anything ran,
  // or is detached. Where leases expire, an end that says that the lease was lost may
  // leave it (Release::left): then the lock has no holder, but it stays taken until the
  // lease expires.
  //
  // An `end` that does not report a loss has to be true: if the lease is no longer this
  // claim's, or was broken, that is the answer and nothing is done. If the claim is then
  // released with an end that reports the loss, the run is recorded as lost, whoever
  // holds the lock by then, and does not count for deduplication.
  //
  // A run that ends sooner than `claim.min_hold` after its grant is recorded like any
  // other. The lock then stays taken until that time, without a holder, and is handed
  // over by itself.
  virtual asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                           Wakeup& wakeup) = 0;

  // Checks whether the lease is still this claim's. If it is, and can expire, it is
  // extended to the claim's ttl plus its lock delay from now. A detached lease that has
  // expired is not restored, whether or not another claim was granted the lock since.
  // An attached one that vanished is restored for a claim that requests it
  // (Claim::reclaim), with its fence, slot and holder information, unless another claim
  // was granted or promised the lock since, or holds it. With `claim.keeps_ttl`, claim()
  // has the ttl of the lease once it is renewed.
  virtual asio::awaitable<Renewal> renew(Wakeup& wakeup) = 0;

  // Who took the lock, once an answer has reported that the lease is broken; nothing if
  // the store does not know, for example because an earlier version took it.
  virtual std::optional<Taker> taken_by() const { return std::nullopt; }

  // Calls `on_news` when the lease should be checked at once: it may have been broken, or
  // its store replaced. This lasts until the returned object is destroyed; it is null if
  // the store sends no notifications. Listening may begin only after a second, because it
  // is not worth its cost for a shorter run. Throws Failure (exhausted).
  virtual std::unique_ptr<LeaseNews> listen(std::function<void()> /*on_news*/) {
    return nullptr;
  }

  // A descriptor that the command inherits so that the lease lasts while any process of
  // the command lives; -1 for stores without such sessions.
  virtual int session() const { return -1; }

  // What to record about the command that is about to start under the grant, if anything.
  virtual std::optional<StartNote> start_note() { return std::nullopt; }

  // Called once the command of a granted claim runs, to record its process for later
  // queries.
  virtual asio::awaitable<void> started(const CommandProcess& /*process*/,
                                        Wakeup& /*wakeup*/) {
    co_return;
  }

 protected:
  // For Claim::keeps_ttl.
  void keep_ttl(milliseconds ttl) { claim_.ttl = ttl; }

 private:
  Claim claim_;
};

}  // namespace dlock
