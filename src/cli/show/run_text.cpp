#include "cli/show/lock_view.hpp"
#include "lock/history.hpp"
#include "util/text.hpp"

namespace dlock {

std::string outcome_of(const RunInfo& run) {
  if (is_by_hand(run) && is_running(run)) return "by hand, not released";
  if (run.signal) return "ended by SIG" + printable(*run.signal, 20);
  if (run.outcome == "ran" && run.exit_code) {
    return "exit " + std::to_string(*run.exit_code);
  }
  if (run.outcome == "vanished") return run.outcome + " (does not count)";
  const auto reason = run.reason.empty() ? "" : " (" + printable(run.reason, 200) + ")";
  const auto code = run.exit_code ? ", exit " + std::to_string(*run.exit_code) : "";
  return printable(run.outcome, 20) + reason + code;
}

bool is_failure(const RunInfo& run) { return run.outcome != "ran" || run.exit_code != 0; }

std::string described(const RunInfo& run) {
  const auto where = " on " + printable(run.host, 64);
  const auto started = rfc3339(run.started);
  if (run.outcome == "running")
    return "it has been running" + where + " since " + started;
  return "it ran" + where + " at " + started + ": " + outcome_of(run) +
         (run.duration ? ", took " + for_people(*run.duration) : "");
}

}  // namespace dlock
