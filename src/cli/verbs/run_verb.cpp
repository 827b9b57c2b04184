#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include "cli/run/execute_run.hpp"
#include "cli/run/hooks.hpp"
#include "cli/run/run_result.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "supervise/signals.hpp"
#include "util/bits.hpp"
#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

// Not in run_options(), which also checks settings of files, for no particular lock.
void refuse_own_name(const RunOptions& options, const Settings& settings) {
  for (const auto& lock : options.also) {
    if (lock.name != options.name) continue;
    throw UsageError(
        "--also: '" + printable_name(lock.name) + "' is the lock of this run already",
        is_from_file(settings, "also"));
  }
}

// Opens the files of the report and of the output. Returns the run that fails if that is
// not possible.
std::optional<FinishedRun> open_files(const RunOptions& options,
                                      std::optional<ReportFile>& report,
                                      std::unique_ptr<OutputCapture>& output,
                                      const Speaker& speaker) {
  try {
    if (!options.report.empty()) report.emplace(options.report);
    if (options.output.is_own()) output = output_for(options, speaker);
  } catch (const Failure& failure) {
    return run_ended_by(failure, "");
  }
  return std::nullopt;
}

// The lock has been released, so a signal may end dlock even if the file system does not
// respond.
void write_report(ReportFile& report, const std::string& path, const std::string& line,
                  int output, const HeldSignals& held, const Speaker& speaker) {
  const auto ends_us = held.let_through();
  if (report.write(line, output)) return;
  const int error = errno;
  speaker.warning("cannot write the report to " + printable(path) + ": " +
                  std::strerror(error));
}

// Prints the output if the command has failed and the output was `kept`, and says so if
// there is none. Returns its last lines. The lock has been
// released, so a signal may end dlock while it waits for a reader.
std::optional<std::string> end_output(const OutputCapture& output, bool kept,
                                      const RunResult& result, const HeldSignals& held,
                                      const Speaker& speaker) {
  if (!result.started) return std::nullopt;
  const bool has_failed = result.outcome != RunOutcome::ran || result.exit_code != 0;
  if (has_failed) {
    const auto ends_us = held.let_through();
    output.print(speaker);
  }
  auto lines = result.ran ? output.last_lines() : std::nullopt;
  // Otherwise cron would send no mail of this failure, as of a success.
  if (has_failed && result.message.empty() && kept && lines && lines->empty()) {
    speaker.error("the command " +
                  (result.signal
                       ? "was killed by SIG" + signal_name(*result.signal)
                       : "exited with " + std::to_string(result.exit_code.value_or(0))) +
                  " and printed nothing");
  }
  return lines;
}

// Runs the command. What it has printed is not lost if an unexpected exception ends
// dlock.
FinishedRun executed(const Invocation& invocation, const RunOptions& options,
                     const HeldSignals& held, const RunAdditions& additions,
                     const OutputCapture* output) {
  try {
    return execute_run(invocation, options, held, additions);
  } catch (...) {
    if (output != nullptr) output->print(Speaker(options.name, false, false));
    throw;
  }
}

// Like the command's environment, but without the lock, which is the command's.
std::vector<std::string> hook_environment(const Invocation& invocation,
                                          const RunIdentity& run,
                                          const RunResult& result) {
  CommandSettings settings;
  settings.name = run.options.name;
  settings.store = run.store;
  settings.name_space = invocation.common.name_space;
  settings.run_id = run.options.run_id;
  settings.config = invocation.config;
  settings.passed_on = invocation.passed_on;
  for (auto& variable : hook_variables(run.options.name, result)) {
    settings.passed_on.push_back(std::move(variable));
  }
  return command_environment(environ, settings);
}

// Runs the hook for this result, if there is one. Returns the signal that asked dlock to
// exit in the meantime, if any.
std::optional<int> tell_hook(const Invocation& invocation, const RunOptions& options,
                             const FinishedRun& run, const HeldSignals& held,
                             const Speaker& speaker) {
  const auto* hook = hook_for(run.result);
  if (hook == nullptr || (options.hooks.*hook->line).empty()) return std::nullopt;
  const RunIdentity identity{options, run.store};
  HookPlan plan;
  plan.line = options.hooks.*hook->line;
  plan.environment = hook_environment(invocation, identity, run.result);
  plan.input = report_line(identity, run.result);
  const auto what = "the " + std::string(hook->option) + " command";
  speaker.step("running " + what);
  const auto end = run_hook(plan, held);
  if (!end.trouble.empty()) speaker.warning(what + " " + end.trouble);
  return end.signal;
}

}  // namespace

Exit run_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  auto options =
      run_options(invocation.settings, invocation.operands.at(0), invocation.command);
  refuse_own_name(options, invocation.settings);
  options.run_id = new_uuid();
  const Speaker speaker(options.name, common.quiet, common.verbose);
  std::optional<ReportFile> report;
  // Before signals are held, because opening a file can block.
  std::unique_ptr<OutputCapture> output;
  const auto refused = open_files(options, report, output, speaker);
  const HeldSignals held;
  std::optional<StartHook> start_hook;
  RunAdditions additions;
  if (!refused && !options.on_start.empty()) {
    start_hook.emplace(options.on_start, output ? output->streams() : CommandStreams{},
                       held, speaker);
    additions.has_started = [&](const RunResult& known, const std::string& store) {
      const RunIdentity identity{options, store};
      start_hook->start(hook_environment(invocation, identity, known),
                        report_line(identity, known));
    };
  }
  additions.capture = output.get();
  auto run =
      refused ? *refused : executed(invocation, options, held, additions, output.get());
  const auto& result = run.result;
  if (output && !refused) {
    run.result.last_lines =
        end_output(*output, options.output.on_failure, result, held, speaker);
  }
  // Written before the hook runs, because the hook can take long.
  const bool failed = run.error && result.exit_code;
  if (failed) speaker.error(result.message);
  if (report) {
    write_report(*report, options.report, report_line({options, run.store}, result),
                 output ? output->streams().output : -1, held, speaker);
  }
  if (start_hook) {
    const auto ends_us = held.let_through();  // which ends the hook
    start_hook->await_end();
  }
  if (const auto signal = tell_hook(invocation, options, run, held, speaker)) {
    return {0, signal};
  }
  if (run.error && !failed) std::rethrow_exception(run.error);
  return {result.exit_code.value_or(0), result.signal};
}

}  // namespace dlock
