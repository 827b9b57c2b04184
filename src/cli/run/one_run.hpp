// One run: a command under a lock, from the request for the lock to its release.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>

#include "cli/args/app.hpp"
#include "cli/run/orphaned_runs.hpp"
#include "cli/run/report.hpp"
#include "cli/run/run_hooks.hpp"
#include "cli/show/holder_text.hpp"
#include "cli/terminal/speaker.hpp"
#include "lease/keeper.hpp"
#include "lease/outage.hpp"
#include "supervise/guardian.hpp"
#include "supervise/supervisor.hpp"

namespace dlock {

// The objects that a run uses. Their owners keep them until the run is over.
struct RunParts {
  asio::io_context& context;
  const Invocation& invocation;
  const RunOptions& options;
  const LeaseTiming& timing;
  const SupervisionPlan& plan;
  const HeldSignals& held;
  Guardian* guardian;   // null for a store whose leases do not expire
  RunHooks* run_hooks;  // null if the verb needs none
};

// One run and its state.
class Run {
 public:
  explicit Run(const RunParts& parts);

  std::string store_url() const { return store_->url(); }

  asio::awaitable<RunResult> execute();

 private:
  asio::awaitable<std::optional<Grant>> grant_to_use(const Answer& answer);
  asio::awaitable<bool> ensure_enough_is_left(Grant& grant);
  bool lasts(const Grant& grant) const;
  asio::awaitable<bool> sleep_for_jitter();
  asio::awaitable<Answer> obtain();
  asio::awaitable<milliseconds> end_leftovers(const Busy& busy);
  bool may_start_without(const Failure& failure) const;
  std::unique_ptr<Supervisor> supervisor();
  StartPlan start_plan(const std::optional<Grant>& grant) const;
  bool may_start(const std::optional<Grant>& grant);
  asio::awaitable<std::optional<Spawned>> start(StartPlan plan,
                                                const std::optional<Grant>& grant);
  asio::awaitable<Ended> command_end(const Spawned& spawned,
                                     const std::optional<Grant>& grant);
  asio::awaitable<void> stop_keeping();
  asio::awaitable<void> run_command(const std::optional<Grant>& grant);
  void conclude_command(const Ended& end, const OutagePolicy& lease);
  void unprotected(const std::string& message);
  asio::awaitable<void> settle(std::optional<RunEnd>& end);
  asio::awaitable<void> give_back(std::optional<RunEnd> end);
  asio::awaitable<void> record_loss(const std::optional<RunEnd>& end);
  asio::awaitable<Release> release(std::optional<RunEnd>& end);

  void conclude(Outcome outcome, ExitStatus status, const std::string& message);
  void not_obtained(const Answer& answer);
  void failed(const Failure& failure);
  void interrupted(int signal);
  void taken_at_once();
  void not_started(const SpawnFailure& failure);
  void ended(const Ended& ended);
  void lost(Loss loss, CommandFate command);
  std::optional<FailedRenewals> failed_renewals() const;
  void found_lost(Loss loss);
  std::string release_step(const std::optional<RunEnd>& end) const;
  Clock::time_point lease_end() const;
  std::string how_it_ends() const;
  void warn_of_lease_left(const std::string& why) const;
  bool has_no_lease() const;
  bool leaves_lease() const;
  void warn_not_recorded(const std::exception_ptr& error) const;
  std::optional<RunEnd> recorded_end() const;
  std::vector<std::string> environment_for(const std::optional<Grant>& grant) const;

  asio::io_context& context_;
  const Invocation& invocation_;
  const CommonOptions& common_;
  const RunOptions& options_;
  Speaker speaker_;
  Wakeup wakeup_;
  SignalInbox signals_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Claimant> claimant_;
  LeaseTiming timing_;
  SupervisionPlan plan_;
  Guardian* guardian_;
  RunHooks* run_hooks_;
  OrphanedRuns orphans_;  // broken runs that have to end before this one starts
  // Reset when the lock is released, which is when the process tree is let go.
  std::unique_ptr<Supervisor> command_;
  Clock::time_point started_at_;
  Clock::time_point ended_at_;         // when dlock noticed the end of the command
  std::optional<LeaseKeeper> keeper_;  // renews the lease, if there is one
  // Whether the run ended during an outage that it was to survive (--on-outage run).
  bool ended_in_outage_ = false;
  std::optional<std::string> why_not_renewed_;  // if the last renewal failed
  RunResult result_;
};

}  // namespace dlock
