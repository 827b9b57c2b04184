#include "cli/run.hpp"

#include <cerrno>
#include <cstring>
#include <exception>

#include "cli/about.hpp"
#include "cli/finished_run.hpp"
#include "cli/report.hpp"
#include "cli/speaker.hpp"
#include "util/text.hpp"

namespace dlock {

Exit run_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options =
      run_options(invocation.settings, invocation.operands.at(0), invocation.command);
  ReportFile report(options.report);
  const HeldSignals held;
  const auto run = finished_run(invocation, options, held, nullptr);
  const auto& result = run.result;
  if (!options.report.empty() &&
      !report.write(report_line(options.name, run.store, result))) {
    const int error = errno;
    Speaker(options.name, common.quiet, common.verbose)
        .warning("cannot write the report to " + printable(options.report) + ": " +
                 std::strerror(error));
  }
  if (run.error) about(options.name, [&] { std::rethrow_exception(run.error); });
  return {result.exit_code.value_or(0), result.signal};
}

}  // namespace dlock
