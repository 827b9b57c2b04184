// A command under a lock, from the request for the lock to its release.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/args/app.hpp"
#include "cli/args/options.hpp"
#include "cli/run/run_locks.hpp"
#include "cli/run/run_output.hpp"
#include "cli/run/run_result.hpp"
#include "cli/run/service_notice.hpp"
#include "cli/terminal/speaker.hpp"
#include "supervise/guardian.hpp"
#include "supervise/signals.hpp"
#include "supervise/supervisor.hpp"
#include "util/failure.hpp"

namespace dlock {

// What a verb adds to a run: `cache` stores the command's output. Called at each step of
// a run. A Failure thrown by a function here makes the run fail like one of the run's own
// failures, unless the function's comment says otherwise.
//
// These are not the user's hooks (--on-success and the like); see hooks.hpp.
class RunExtension {
 public:
  virtual ~RunExtension() = default;

  // Called once the lock is granted. Returns whether the command needs to run; if not,
  // the lock is released.
  virtual asio::awaitable<bool> is_needed(Store& store, const Claim& claim,
                                          Wakeup& wakeup) = 0;

  // Called if another run counts as this one.
  virtual asio::awaitable<void> joined(const RunInfo& run, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;

  // Called when the only step left is to release the lock. Returns whether the waiters
  // share the result of this run. Does not throw.
  virtual asio::awaitable<bool> settle(const RunResult& result, Store& store,
                                       const Claim& claim, Wakeup& wakeup) = 0;
};

// What a verb adds to a run. Each may be null.
struct RunAdditions {
  OutputCapture* capture = nullptr;
  RunExtension* extension = nullptr;
  // Called once the command runs, with what is known by then and the store's URL. Does
  // not throw.
  std::function<void(const RunResult&, const std::string&)> has_started;
  // Makes the supervisor of the command in the place of dlock's own: tests/simulation.
  std::function<std::unique_ptr<Supervisor>(SignalInbox&, Wakeup&)> supervise{};
};

// The objects that a run uses. Their owners keep them until the run is over.
struct RunParts {
  asio::io_context& context;
  const Invocation& invocation;
  const RunOptions& options;
  const LeaseTiming& timing;
  const SupervisionPlan& plan;
  const HeldSignals& held;
  Guardian* guardian;  // null for a store whose leases do not expire
  const RunAdditions& additions;
};

// One run and its state.
class LockedRun {
 public:
  explicit LockedRun(const RunParts& parts);

  std::string store_url() const { return locks_.first().store->url(); }

  asio::awaitable<RunResult> execute();

  // As Store::part(), of all stores.
  void part() const {
    for (const auto& lock : locks_.all()) lock.store->part();
  }

 private:
  void warn_of_host_name() const;
  asio::awaitable<bool> sleep_first();
  asio::awaitable<bool> obtain_locks();
  asio::awaitable<bool> needs_command(const Answer& answer);
  bool are_granted(const std::optional<Answer>& answer);
  void interrupt(int signal);

  asio::awaitable<void> run_command();
  std::unique_ptr<Supervisor> new_supervisor();
  void output_has_ended();
  StartPlan start_plan() const;
  std::vector<std::string> environment() const;
  bool may_start();
  asio::awaitable<std::optional<Spawned>> start(StartPlan plan);
  asio::awaitable<Ended> await_end(const Spawned& spawned);
  void warn_not_recorded(const std::exception_ptr& error) const;

  // A lock that is given back: what is recorded with it, and what came of it.
  struct Handover {
    RunLock* lock;
    std::optional<RunEnd> end;
    std::optional<Release> answer = std::nullopt;
    std::optional<Failure> failure = std::nullopt;
  };

  std::optional<RunEnd> recorded_end(const RunLock& lock) const;
  asio::awaitable<void> settle();
  asio::awaitable<void> give_back();
  asio::awaitable<void> release_together(std::vector<Handover>& all);
  asio::awaitable<void> release_with_own_wakeup(Handover& one);
  asio::awaitable<void> release(Handover& one, Wakeup& wakeup);
  asio::awaitable<Release> answer_to_release(RunLock& lock,
                                             const std::optional<RunEnd>& end,
                                             Wakeup& wakeup);
  void tell_of(const Handover& one);
  static bool is_recorded(const Handover& one);
  asio::awaitable<void> record_loss(RunLock& lock);

  asio::io_context& context_;
  const Invocation& invocation_;
  const RunOptions& options_;
  Wakeup wakeup_;
  SignalInbox signals_;
  RunLocks locks_;
  const Speaker& speaker_;
  SupervisionPlan plan_;
  Guardian* guardian_;
  const RunAdditions& additions_;
  // Reset when the lock is released, which is when the process tree is let go.
  std::unique_ptr<Supervisor> command_;
  Clock::time_point started_at_;
  bool is_shared_ = false;  // RunEnd::is_shared
  RunConclusion conclusion_;
  std::unique_ptr<ServiceNotice> notice_;  // with --notify
};

}  // namespace dlock
