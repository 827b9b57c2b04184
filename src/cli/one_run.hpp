// One run: a command under a lock, from the wish for it to its end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>

#include "cli/app.hpp"
#include "cli/errand.hpp"
#include "cli/report.hpp"
#include "cli/speaker.hpp"
#include "supervise/guardian.hpp"
#include "supervise/supervisor.hpp"

namespace dlock {

// One run: its parts, and what is known of it so far.
class Run {
 public:
  // Without a guardian for a store whose leases do not run out, and without an errand if
  // the verb has none.
  Run(asio::io_context& context, const Invocation& invocation,
      const CommonOptions& common, const RunOptions& options, const LeaseTiming& timing,
      const SupervisionPlan& plan, const HeldSignals& held, Guardian* guardian,
      Errand* errand)
      : context_(context),
        invocation_(invocation),
        common_(common),
        options_(options),
        speaker_(options.name, common.quiet, common.verbose),
        wakeup_(context),
        signals_(context, wakeup_, held),
        store_(open_store(common.store, timing.budget(), context)),
        timing_(timing),
        plan_(plan),
        guardian_(guardian),
        errand_(errand) {}

  std::string store_url() const { return store_->url(); }

  asio::awaitable<RunResult> to_the_end();

 private:
  asio::awaitable<std::optional<Grant>> settled(const Answer& answer);
  asio::awaitable<bool> make_sure(Grant& grant);
  bool lasts(const Grant& grant) const;
  asio::awaitable<bool> wait_out_jitter();
  asio::awaitable<Answer> obtain();
  bool may_start_without(const Failure& failure) const;
  std::unique_ptr<Supervisor> supervisor();
  asio::awaitable<void> run_command(const std::optional<Grant>& grant);
  void unprotected(const std::string& message);
  asio::awaitable<void> settle(std::optional<RunEnd>& end);
  asio::awaitable<void> give_back(std::optional<RunEnd> end);
  asio::awaitable<Release> release(std::optional<RunEnd>& end);

  void conclude(Outcome outcome, ExitStatus status, const std::string& message);
  void not_obtained(const Answer& answer);
  void failed(const Failure& failure);
  void interrupted(int signal);
  void not_started(const SpawnFailure& failure);
  void ended(const Ended& ended);
  void lost(Loss loss, const std::string& what_of_the_command);
  void found_lost(Loss loss);
  milliseconds show_waiting(const Busy& busy);
  std::string release_step(const std::optional<RunEnd>& end) const;
  std::string how_it_ends() const;
  bool leaves_lease() const;
  void warn_not_noted(const std::exception_ptr& error) const;
  std::optional<RunEnd> end_for_the_record() const;
  Claim claim() const;
  std::vector<std::string> environment_for(const std::optional<Grant>& grant) const;

  asio::io_context& context_;
  const Invocation& invocation_;
  const CommonOptions& common_;
  const RunOptions& options_;
  Speaker speaker_;
  Wakeup wakeup_;
  SignalInbox signals_;
  std::unique_ptr<Store> store_;
  LeaseTiming timing_;
  SupervisionPlan plan_;
  Guardian* guardian_;
  Errand* errand_;
  Claim claim_;
  // Until the lock is given back, which is when it is let go.
  std::unique_ptr<Supervisor> command_;
  // Whether the run ended in an outage that it was to live through (--on-outage run).
  bool ended_in_outage_ = false;
  RunResult result_;
};

}  // namespace dlock
