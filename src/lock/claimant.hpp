// One claim on a lock, from the first question to the release.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "lock/answers.hpp"
#include "lock/command_process.hpp"
#include "lock/lease.hpp"
#include "lock/lease_watcher.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// What is heard of a lease, for as long as this is there.
class LeaseNews {
 public:
  virtual ~LeaseNews() = default;

  // Whether nothing can be heard just now, so that the lease has to be looked at by the
  // clock.
  virtual bool is_interrupted() const { return false; }

  // Nothing is heard from here on. What takes time to let go of goes with this object.
  virtual void stop() {}
};

// Made by a store for one claim, and no longer there than the store. Each call is one
// atomic step in the store, and one at a time; what Store says of outcomes and failures
// holds here, too.
class Claimant {
 public:
  explicit Claimant(const Claim& claim) : claim_(claim) {}
  virtual ~Claimant() = default;
  Claimant(const Claimant&) = delete;
  Claimant& operator=(const Claimant&) = delete;

  const Claim& claim() const { return claim_; }

  // Whether to ask with Queue::join at once is no dearer than to ask whether the lock is
  // free first.
  virtual bool queues_at_once() const { return false; }

  // Grants the lock if it is free, promised to this claim or already its
  // own (then with the same fence, and for its full ttl again if that is what ends it). A
  // newcomer never overtakes a waiter. With Queue::join a claim that is not granted has
  // its place in the queue afterwards. With Queue::refuse one that is told Busy is
  // counted in the same step as refused; a place that it has is its own until it is
  // released. A lease that can run out is kept for the claim's ttl and its lock delay;
  // the deadline of the grant knows of the ttl alone. Gives up with Failure::interrupted
  // when `wakeup` says so.
  //
  // With `claim.dedupe` it is answered with a run that counts as its own, if there is
  // one: the run that is going on, or the last that started less than the window ago by
  // the store's clock, whoever ran it. Where failed ones are to be run again, only a
  // success counts, and with Queue::join the run that is going on has to end first. A
  // claim that waits already leaves the queue, and is woken, in the step in which such a
  // run starts or ends. No runs are detached and shared grants, those of further slots,
  // those that were given back before anything ran, those that lost the lock or are about
  // to, and commands that could not be started. A claim that joins leaves the queue in
  // the step in which a run ends that is shared (RunEnd::is_shared), and no other run
  // counts for it.
  //
  // With `claim.max_queue` it takes no place in the queue where so many wait already:
  // Busy, without a place, and counted as refused. One that has a place keeps it.
  //
  // A claim that `supersedes` and takes a place in the queue, or is granted the lock at
  // once, ends the wait of the older one that does, also if that was promised the lock:
  // it leaves the queue, is counted and is woken in the same step, and is answered with
  // Superseded from then on.
  //
  // While a claim that `replaces` waits, nobody else has the lock for good: whoever holds
  // it when the claim takes its place or asks again loses it as by Store::break_leases,
  // outer runs of the claim excepted; and whoever is granted it while the claim stands in
  // line, and was not promised the lock itself, is granted it broken (Grant::broken), in
  // the same step. A detached lease is granted as it is, and the claim is woken to take
  // it.
  virtual asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) = 0;

  // Sleeps until asking again can be of use, `until`, or until `wakeup` gives up. May
  // return early. Only after ask(Queue::join) was answered with Busy.
  virtual asio::awaitable<void> await_turn(Wakeup& wakeup, Clock::time_point until) = 0;

  // Frees the lock if it is this claim's, hands it to the next in line in the same
  // step, and takes the claim out of the queue. `end` is recorded as the last run;
  // without it the grant was given back before anything ran, or is detached: no run.
  // Where leases run out, an end that says that the lease was lost may leave it
  // (Release::left): then the lock is nobody's, but is held until the lease ends.
  //
  // An `end` that does not say that the lease was lost has to be true: if the lease that
  // this claim was granted is not its own any more, or was broken, that is the answer,
  // and nothing is done. Released again with an end that says so, the run is recorded as
  // that, whoever has the lock by then, and counts for nobody.
  //
  // A run that ends sooner than `claim.min_hold` after its grant is recorded like any
  // other, and the lock is nobody's, but is held until then and handed on by itself.
  virtual asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                           Wakeup& wakeup) = 0;

  // Asks whether the lease is still this claim's. If it is, and can run out, it lasts
  // from now for the claim's ttl, and its lock delay. A detached one that has ended is
  // not set up again, whether or not somebody was granted the lock since. An attached one
  // that vanished is, for a claim that wants that (Claim::reclaim), with its fence, its
  // slot and what is shown of its holder, unless somebody else was granted or promised
  // the lock since, or has it.
  virtual asio::awaitable<Renewal> renew(Wakeup& wakeup) = 0;

  // Who has taken the lock, once an answer has said that the lease is broken; nothing if
  // the store does not know, as of one who used an earlier version.
  virtual std::optional<Taker> taken_by() const { return std::nullopt; }

  // Has `heard` called when it is worth asking at once what has become of the lease: it
  // may have been broken, or its store replaced. Until what is returned is destroyed;
  // null if nothing is ever heard. A run that is over within a second is not worth the
  // listening, which may begin only then. Throws Failure (exhausted).
  virtual std::unique_ptr<LeaseNews> listen(std::function<void()> /*heard*/) {
    return nullptr;
  }

  // A descriptor that the command inherits so that the lease lives while any process
  // of it does; -1 for stores that know no such thing.
  virtual int session() const { return -1; }

  // What to note of the command that is about to start under the grant, if anything.
  virtual std::optional<StartNote> start_note() { return std::nullopt; }

  // The command of a granted claim runs: what is told only to those who ask later.
  virtual asio::awaitable<void> started(const CommandProcess& /*process*/,
                                        Wakeup& /*wakeup*/) {
    co_return;
  }

 private:
  Claim claim_;
};

}  // namespace dlock
