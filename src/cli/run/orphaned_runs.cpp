#include "cli/run/orphaned_runs.hpp"

#include <cerrno>
#include <csignal>

#include "cli/show/lock_view.hpp"
#include "util/failure.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

// From TERM to KILL, the default of --kill-after.
constexpr milliseconds kill_after{5000};

// How long a run may have no visible processes: it may just be ending.
constexpr milliseconds found_within{1000};

}  // namespace

void OrphanedRuns::end(const Broken& broken) {
  const auto now = Clock::now();
  auto& run = runs_.try_emplace(broken.holder.fence, Known{now, Clock::time_point::max()})
                  .first->second;
  if (!broken.processes.empty()) run.found_at = now;
  if (now - run.found_at >= found_within) {
    throw Failure(Failure::Kind::rejected,
                  "the dlock process of its holder is gone, and the rest of its command "
                  "is out of reach: " +
                      described(broken.holder));
  }
  const bool termed = run.termed_at != Clock::time_point::max();
  const bool kills = termed && now - run.termed_at >= kill_after;
  for (const auto& process : broken.processes) {
    if (termed && !kills) break;
    const bool sent = send_signal(process.get(), kills ? SIGKILL : SIGTERM);
    if (!sent && errno == EPERM) {
      throw Failure(Failure::Kind::rejected,
                    "the dlock process of its holder is gone, and this user has no "
                    "permission to end its command: " +
                        described(broken.holder));
    }
    send_signal(process.get(), SIGCONT);  // a stopped process would not notice
  }
  if (!termed && !broken.processes.empty()) run.termed_at = now;
}

}  // namespace dlock
