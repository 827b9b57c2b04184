// The interface to a lock service.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/command_process.hpp"
#include "lock/event.hpp"
#include "lock/keeper.hpp"
#include "lock/lease.hpp"
#include "lock/value.hpp"
#include "lock/wakeup.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"

namespace dlock {

// The lock is someone else's, or promised to someone: an answer, not an error.
struct Busy {
  std::vector<HolderInfo> holders;
  std::size_t place = 0;   // in the queue, from 1; 0 for a claim that does not queue
  std::size_t queued = 0;  // how many wait, this claim included
};

// A run above this one holds the lock that is asked for: waiting would never end.
struct HeldAbove {
  Fence fence;
};

// The lock is in use with another number of slots.
struct SlotsDiffer {
  unsigned in_use = 0;
};

// A run of the lock counts as the one that is asked for.
struct Deduplicated {
  RunInfo by;
};

using Answer = std::variant<Grant, Busy, HeldAbove, SlotsDiffer, Deduplicated>;

// What a store says to a release. `taken_over`, `gone` and `broken` are news to one who
// did not know that the lease was lost, and nothing else has been done then.
enum class Release { released, not_ours, left, taken_over, gone, broken };

Release release_telling(Loss loss);  // but for `unconfirmed`, which no store says

// Why the lease was lost, if that is what a release has found out.
std::optional<Loss> loss_told_by(Release answer);

// What a register says to a fence.
enum class Admission { admitted, stale };

// What a limit says to one who asks. Each tells how many more it would admit now, and how
// long it takes until it could admit one who asks then.
struct Admitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
};

// Not yet. With a turn the claim has a place in line, and is to ask again after
// `next_in`; without one that would be longer than its patience.
struct NotAdmitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
  bool has_turn = false;
};

// The limit is in use with another rate.
struct RateDiffers {
  Rate in_use;
};

using RateAnswer = std::variant<Admitted, NotAdmitted, RateDiffers>;

// A turn that is not taken for so long has lapsed.
constexpr milliseconds turn_holds{1000};

// Whether a claim that finds the lock busy takes a place in the queue (or keeps it).
enum class Queue { stay_out, join };

// How a run ended, for the record.
struct RunEnd {
  std::optional<int> exit_code;
  std::optional<std::string> signal;
  std::string outcome;
  milliseconds duration{};
  std::optional<Loss> lost;   // the lease did not hold, or may not have held, to the end
  bool leaves_lease = false;  // to end by itself, if it can
  bool is_shared = false;  // those who wait to join it (Dedupe::joins) have run with it
};

// A holder from whom a lock is taken.
struct Broken {
  HolderInfo holder;  // as it was
  // What is there of a run whose dlock is gone, for the caller to end: a pidfd each.
  std::vector<Fd> processes;
};

// A lock service. Each call is one atomic step in the store.
//
// Expected outcomes are values. A Failure means that the outcome is unknown or that
// nothing was done; each call may be repeated with the same claim, and a repeat finds
// what the first one did. Each call ends within the store timeout.
class Store {
 public:
  virtual ~Store() = default;

  // Its URL with absolute paths and without secrets: for DLOCK_STORE and reports.
  virtual std::string url() const = 0;

  // Whether a grant excludes anybody at all.
  virtual bool protects() const { return true; }

  // Whether a lease ends by the clock if nobody renews it.
  virtual bool leases_run_out() const { return false; }

  // Whether to ask with Queue::join at once is no dearer than to ask whether the lock is
  // free first.
  virtual bool queues_at_once() const { return false; }

  // Grants the lock to `claim` if it is free, promised to this claim or already its
  // own (then with the same fence, and for its full ttl again if that is what ends it). A
  // newcomer never overtakes a waiter. With Queue::join a claim that is not granted has
  // its place in the queue afterwards.
  // A lease that can run out is kept for the claim's ttl and its lock delay; the deadline
  // of the grant knows of the ttl alone.
  // Gives up with Failure::interrupted when `wakeup` says so.
  //
  // With `claim.dedupe` it is answered with a run that counts as its own, if there is
  // one: the run that is going on, or the last that started less than the window ago by
  // the store's clock, whoever ran it. Where failed ones are to be run again, only a
  // success counts, and with Queue::join the run that is going on has to end first. A
  // claim that waits already leaves the queue, and is woken, in the step in which such a
  // run starts or ends. No runs are detached and shared grants, those of further slots,
  // those that were given back before anything ran, and commands that could not be
  // started. A claim that joins leaves the queue in the step in which a run ends that is
  // shared (RunEnd::is_shared), and no other run counts for it.
  virtual asio::awaitable<Answer> ask(const Claim& claim, Queue queue,
                                      Wakeup& wakeup) = 0;

  // Sleeps until asking again can be of use, `until`, or until `wakeup` gives up. May
  // return early. Only after ask(claim, Queue::join) was answered with Busy.
  virtual asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                           Clock::time_point until) = 0;

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
  virtual asio::awaitable<Release> release(const Claim& claim,
                                           const std::optional<RunEnd>& end,
                                           Wakeup& wakeup) = 0;

  // The value that was stored last under this name, whole, unless it has been forgotten
  // or its lifetime is over. What is damaged is no value, and is said. One that is large
  // comes in pieces, and the store timeout is that of each.
  virtual asio::awaitable<ValueLookup> get_value(const LockName& lock,
                                                 Wakeup& wakeup) = 0;

  // Stores a value under the name of the lock in the place of what is there, all of it or
  // nothing, if the lock is this claim's: exclusive, attached, and not kept any more
  // (stop_keeping). A lease that can run out lasts its full ttl again afterwards. A
  // Failure leaves what was there. Large values as with get_value.
  virtual asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                             Lifetime lifetime, Wakeup& wakeup) = 0;

  // There is no value under this name afterwards. Whoever holds the lock may store one
  // all the same.
  virtual asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) = 0;

  // Sets the lease of a detached claim to its ttl from now if the lock is still this
  // claim's. One that has ended is not set up again, whether or not somebody was granted
  // the lock since.
  virtual asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) = 0;

  // A descriptor that the command inherits so that the lease lives while any process
  // of it does; -1 for stores that know no such thing.
  virtual int session() const { return -1; }

  // What to note of the command that is about to start under the grant, if anything.
  virtual std::optional<StartNote> start_note(const Claim& /*claim*/) {
    return std::nullopt;
  }

  // The command of a granted claim runs: what is told only to those who ask later.
  virtual asio::awaitable<void> started(const Claim& claim, const CommandProcess& process,
                                        Wakeup& wakeup) = 0;

  // From here on the lease is kept, and `watcher` is told what becomes of it, until
  // stop_keeping(). Where leases run out, one that vanished is set up again for a claim
  // that wants that, with its fence, its slot and what is shown of its holder, unless
  // somebody else was granted or promised the lock since, or has it.
  virtual void start_keeping(const Claim& claim, const Grant& grant, LeaseTiming timing,
                             LeaseWatcher& watcher) = 0;
  virtual void stop_keeping() = 0;

  // Waits, after stop_keeping(), for what of it is still under way; until then other
  // operations do that before they begin.
  virtual asio::awaitable<void> keeping_ends(Wakeup& /*wakeup*/) { co_return; }

  // Takes the lock from those of its holders that have one of these fences, and returns
  // them; 0 is a holder that is not dlock's. A lease that is kept (start_keeping) is
  // marked, and its watcher is told that it is broken, within a second unless it cannot
  // be reached: it stays until it is released or ends, and is not kept for min_hold. A
  // lease of which nobody can be told (detached, foreign, or held on for min_hold) is
  // freed, and handed on in the same step. `dlock_gone` is set where there is nobody to
  // tell, and a run that has to be ended. To repeat it does nothing more, but looks again
  // for what is left of such runs.
  virtual asio::awaitable<std::vector<Broken>> break_leases(
      const LockName& lock, const std::vector<Fence>& fences, Wakeup& wakeup) = 0;

  // The lock as it is now; a lock nobody ever used is free.
  virtual asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) = 0;

  // Every lock of the namespace that is held, awaited or has a last run and whose
  // name `matches`, by name.
  virtual asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) = 0;

  // The runs of the lock that are going on (outcome "running", duration so far), and
  // those that are over as far as they are kept: see lock/history.hpp. The last that
  // started comes first. Shared runs and runs in slots are among them; detached grants,
  // and those given back before anything ran, are no runs.
  virtual asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                        Wakeup& wakeup) = 0;

  // Admits `fence` for `resource`, which has nothing to do with a lock of that name,
  // unless a greater one was admitted before. What was admitted is never forgotten, as
  // far as the store keeps anything across a power cut.
  virtual asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                                 Wakeup& wakeup) = 0;

  // Admits the claim if that makes no window of the rate's period hold more than it may,
  // by the store's clock, and if it would not do so at the expense of those in line.
  //
  // Who is not admitted gets a turn if that comes within its patience: the earliest
  // moment at which it can be admitted if all before it take their turns. It is admitted
  // when it asks again from that moment on, or is told a later turn where one before it
  // was late. A turn that is not taken within `turn_holds` lapses, and so does the place
  // in line; one that is a period late holds up none of those who wait behind it.
  //
  // A claim that asks again after it was admitted, its answer having been lost, is
  // admitted once. What is known of a limit goes away by itself once it is of no
  // consequence. A clock that is set back delays nobody by more than a period.
  virtual asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Gives up the place in line; nothing if there is none. The turns of those behind it
  // stay what they were told.
  virtual asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Tells `sink` of each event of the locks that are watched, once and in their order,
  // until `wakeup` gives up. A lease that runs out is noticed within a second. Throws
  // Failure when it cannot even begin; an interruption after that is told, and mended as
  // soon as possible. A store that remembers nothing has nothing to tell.
  virtual asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                                      Wakeup& wakeup);
};

}  // namespace dlock
