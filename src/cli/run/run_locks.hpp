// The locks of one run: obtained in one order, kept together, given back in reverse.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "lease/holding.hpp"
#include "lease/keeper.hpp"

namespace dlock {

// What --on-outage makes of the lease of a lock. Also prints what only matters to the
// user.
class LeasePolicy final : public OutagePolicy {
 public:
  LeasePolicy(OnOutage on_outage, const Holding& holding, LeaseWatcher& command,
              std::function<void(const std::string&)> warn, const Speaker& speaker)
      : OutagePolicy(on_outage, holding.timing(), holding.grant()->deadline, command,
                     std::move(warn)),
        speaker_(speaker) {}

  void reclaimed() override {
    speaker_.warning("the lease was missing from the store and was restored");
  }

 private:
  const Speaker& speaker_;
};

// One of the locks.
struct RunLock {
  // `own`: the options of the run, with those of this lock. `run`: its name.
  RunLock(asio::io_context& context, Wakeup& wakeup, const CommonOptions& common,
          const RunOptions& own, const std::string& run, const LeaseTiming& timing);

  const std::string& name() const { return holding.claim().lock.name; }

  // What messages begin with if they are about a lock of --also: "cache: ".
  std::string about;
  Speaker speaker;  // says that as well
  // One for each lock: while a store waits for one lock, another has to be renewed.
  std::unique_ptr<Store> store;
  Holding holding;
  bool has_slots;                     // as in ClaimOptions
  bool is_asked = false;              // there may be something to give back
  bool is_held = false;               // granted, and nothing else is known
  std::optional<LeasePolicy> policy;  // set once the command may rely on it
  std::optional<Loss> loss;           // set once the run is concluded to have lost it
};

class RunLocks {
 public:
  // The arguments have to outlive it. Contacts no store yet. Throws Failure.
  RunLocks(asio::io_context& context, Wakeup& wakeup, const CommonOptions& common,
           const RunOptions& options, const LeaseTiming& timing);

  // In the order in which they were named; the run is named after the first.
  std::list<RunLock>& all() { return locks_; }
  const std::list<RunLock>& all() const { return locks_; }
  RunLock& first() { return locks_.front(); }
  const RunLock& first() const { return locks_.front(); }

  // The one that the last answer or Failure is about.
  RunLock& asked() { return *asked_; }

  // Requests them one after the other, in the order of their names, within the wait of
  // the options. As all runs do so, they never wait for each other in a circle. Those
  // that were granted are kept meanwhile. Returns the first answer that is not a grant,
  // or the last grant. Nothing: another run or user took one that was granted. If one was
  // lost in another way, make_sure() finds out. `listener`: as for obtain() of one lock.
  asio::awaitable<std::optional<Answer>> obtain(WaitListener listener);

  // Requests once more, without waiting, each lock that was lost or whose lease is too
  // short to start a command. Returns as obtain() does.
  asio::awaitable<std::optional<Answer>> make_sure();

  // For a run that is to go on without some of them: those that were lost since, or soon
  // will be, are not held either.
  void drop_lost();

  // Whether all of them were granted.
  bool are_held() const;

  // Whether enough is left of the leases of those that are held to start a command.
  bool last() const;

  // When the first lease of those that are held ends; max() if none does.
  Clock::time_point deadline() const;

  // For the command that is about to start under those that are held: what it inherits,
  // and is to record.
  std::vector<HeldLock> held() const;
  std::vector<int> sessions() const;
  std::vector<StartNote> start_notes();
  // Records its process. Throws Failure.
  asio::awaitable<void> started(const CommandProcess& process, Wakeup& wakeup);

  // Prepares keep(): renews, or checks, the leases of those that are held, until
  // stop_keeping(). `command` is told until when it may run. `warn` says what --on-outage
  // lets happen.
  void rely_on(LeaseWatcher& command,
               const std::function<void(const std::string&)>& warn);
  void keep();
  asio::awaitable<void> stop_keeping();

  // The one because of which the run has lost its lock like this.
  RunLock& lost_by(Loss loss);

  // Those that there may be something of to give back, in that order.
  std::vector<RunLock*> to_give_back() const;

 private:
  asio::awaitable<std::optional<Answer>> foregone_answer();
  asio::awaitable<std::optional<Answer>> obtain_in_order();
  asio::awaitable<Answer> obtain_one(RunLock& lock,
                                     std::optional<Clock::time_point> until);
  asio::awaitable<milliseconds> end_leftovers(RunLock& lock, const Busy& busy);
  RunLock* broken_one();

  // Interrupts the wait for further locks if a granted one is taken: whoever took it
  // waits for this run.
  class Alarm final : public LeaseWatcher {
   public:
    explicit Alarm(Wakeup& wakeup) : wakeup_(wakeup) {}
    void extend(Clock::time_point /*deadline*/) override {}
    void forfeit(Loss loss) override {
      if (loss == Loss::broken) wakeup_.give_up(true);
    }

   private:
    Wakeup& wakeup_;
  };

  asio::io_context& context_;
  Wakeup& wakeup_;
  const CommonOptions& common_;
  const RunOptions& options_;
  std::list<RunLock> locks_;
  std::vector<RunLock*> in_order_;
  RunLock* asked_;
  WaitListener listener_;
  Alarm alarm_;
  std::optional<LeaseGroup> group_;
  OrphanedRuns orphans_;  // broken runs that have to end before this one starts
};

}  // namespace dlock
