#include "cli/run/execute_run.hpp"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <cstring>
#include <memory>
#include <optional>

#include "loop/event_loop.hpp"
#include "supervise/command_tree.hpp"
#include "supervise/guardian.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Throws UsageError if the lease is too short for its renewal and for ending the command.
void check(const LeaseTiming& timing) {
  if (timing.is_sound()) return;
  throw UsageError("a ttl of " + for_people(timing.ttl()) + " is too short: " +
                   for_people(timing.renew_every()) + " until renewal, " +
                   for_people(timing.budget()) + " for the store to reply, " +
                   for_people(timing.grace()) + " from TERM to KILL and " +
                   for_people(timing.margin() + timing.drift()) +
                   " of margin add up to " + for_people(timing.needed()));
}

SupervisionPlan supervision_of(const CommonOptions& common, const RunOptions& options,
                               const LeaseTiming& timing) {
  auto plan = options.supervision;
  plan.own_group = !has_terminal();
  if (common.store.leases_expire()) plan.lease = timing;
  return plan;
}

Guardian::Task guardian_task(const RunOptions& options, const SupervisionPlan& plan,
                             const HeldSignals& held, const OutputCapture* capture) {
  // An upper limit for each variable that dlock adds: exec(3) rejects longer ones.
  constexpr std::size_t longest_variable = 128 * 1024;
  std::size_t size = 4 * longest_variable;
  for (auto* variable = environ; *variable != nullptr; ++variable) {
    size += std::strlen(*variable) + 1 + sizeof(char*);
  }
  Guardian::Task task{options.command, held.inherited(), plan, size, {}};
  if (capture != nullptr) task.streams = capture->streams();
  return task;
}

struct Parts {
  EventLoop context;
  std::optional<LockedRun> run;
};

// If nothing follows the run, its objects are not destroyed: the process exits now, and
// the kernel frees memory, maps and descriptors faster than destructors, while the next
// waiter waits. Not in builds with leak detection, which needs its own descriptors.
#ifdef DLOCK_LOOKS_FOR_LEAKS
constexpr bool ends_at_once = false;
#else
constexpr bool ends_at_once = true;
#endif
// Volatile, or the compiler would remove them.
Parts* volatile left_to_the_kernel = nullptr;
Guardian* volatile guardian_left = nullptr;

}  // namespace

FinishedRun run_ended_by(const Failure& failure, const std::string& store) {
  FinishedRun finished;
  finished.store = store;
  finished.error = std::current_exception();
  finished.result.exit_code = code_of(status_of(failure.kind()));
  finished.result.message = failure.what();
  return finished;
}

FinishedRun execute_run(const Invocation& invocation, const RunOptions& options,
                        const HeldSignals& held, const RunAdditions& additions) {
  auto* const extension = additions.extension;
  const auto& common = invocation.common;
  const LeaseTiming timing(options.ttl, options.supervision.kill_after,
                           store_timeout(common, options.ttl));
  const bool needs_guardian = common.store.leases_expire();
  if (needs_guardian) check(timing);

  FinishedRun finished;
  auto& result = finished.result;
  try {
    const auto plan = supervision_of(common, options, timing);
    std::unique_ptr<Guardian> guardian;
    // Before the store is contacted.
    if (!needs_guardian && plan.needs_tree()) {
      CommandTree(plan, CommandTree::Strangers::possible).require_visibility();
    }
    if (needs_guardian) {
      guardian = std::make_unique<Guardian>(
          guardian_task(options, plan, held, additions.capture));
    }
    auto parts = std::make_unique<Parts>();
    auto& run = parts->run.emplace(RunParts{parts->context, invocation, options, timing,
                                            plan, held, guardian.get(), additions});
    // Even after an exception: what the capture watches is watched by the context.
    const OnExit tell_capture([&] {
      if (additions.capture != nullptr) additions.capture->command_ended();
    });
    finished.store = run.store_url();
    asio::co_spawn(
        parts->context, [&run] { return run.execute(); },
        [&](std::exception_ptr thrown, RunResult ended) {
          finished.error = thrown;
          result = std::move(ended);
          parts->context.stop();
        });
    parts->context.run();
    if (ends_at_once && extension == nullptr) {
      run.part();
      left_to_the_kernel = parts.release();
      if (guardian) guardian->dismiss();
      guardian_left = guardian.release();
    }
  } catch (...) {
    const auto failure = caught_failure();
    if (!failure) throw;
    return run_ended_by(*failure, finished.store);
  }
  return finished;
}

}  // namespace dlock
