#include "cli/args/claim_options.hpp"
#include "lock/history.hpp"

namespace dlock {
namespace {

// Stores do not keep an unused lock for longer.
constexpr auto longest_hold = run_retention;

constexpr Choice<OnOutage> outage_policies[] = {{"stop", OnOutage::stop},
                                                {"run", OnOutage::run}};
constexpr Choice<Stragglers> straggler_policies[] = {
    {"leave", Stragglers::leave}, {"wait", Stragglers::wait}, {"kill", Stragglers::kill}};

// Resets --shared and --slots in `run` where they yield to --dedupe.
std::optional<Dedupe> dedupe(const Settings& settings, RunOptions& run) {
  Dedupe dedupe;
  duration(settings, "dedupe", dedupe.window);
  with_setting(settings, "dedupe", [&](const std::string&) {
    if (dedupe.window > run_retention) throw UsageError("must be at most 30 days");
  });
  dedupe.retry_failed = flag(settings, "retry-failed");
  if (dedupe.retry_failed && settings.count("dedupe") == 0) {
    throw NeedsAnother("--retry-failed needs --dedupe",
                       is_from_file(settings, "retry-failed"));
  }
  if (dedupe.window.count() == 0) return std::nullopt;
  // Concurrent runs are meant to be several, so they cannot be deduplicated.
  if (!run.shared && run.slots == 1) return dedupe;
  const std::string_view other = run.shared ? "shared" : "slots";
  if (gives_way(settings, other, "dedupe")) {
    run.shared = false;
    run.slots = 1;
    return dedupe;
  }
  // --retry-failed on the command line refers to the --dedupe in the file.
  const bool is_wanted = dedupe.retry_failed && !is_from_file(settings, "retry-failed");
  if (is_wanted || !gives_way(settings, "dedupe", other)) {
    throw excluded(settings, "dedupe", other);
  }
  return std::nullopt;
}

// An empty value overrides the file and disables the hook.
HookLines hook_lines(const Settings& settings) {
  HookLines lines;
  const auto set = [&](std::string_view name, std::string& line) {
    with_setting(settings, name, [&](const std::string& value) {
      if (value.find('\0') != std::string::npos)
        throw UsageError("invalid shell command");
      line = value;
    });
  };
  set("on-success", lines.on_success);
  set("on-failure", lines.on_failure);
  set("on-busy", lines.on_busy);
  return lines;
}

void set_place_in_line(const Settings& settings, RunOptions& options) {
  // More than any queue can have.
  constexpr unsigned most_waiters = 100'000;
  const auto queues = [&](const char* name) {
    const bool is_set = flag(settings, name);
    if (is_set && !options.wait) {
      throw NeedsAnother("--" + std::string(name) + " needs --wait",
                         is_from_file(settings, name));
    }
    return is_set;
  };
  options.replace = queues("replace");
  options.supersede = queues("supersede");
  with_setting(settings, "max-queue", [&](const std::string& value) {
    options.max_queue = parsed_number(value, 0, most_waiters);
  });
}

}  // namespace

RunOptions run_options(const Settings& settings, const std::string& name,
                       std::vector<std::string> command) {
  RunOptions options;
  set_claim(settings, name, options);
  options.command = std::move(command);
  with_setting(settings, "conflict-exit-code", [&](const std::string& value) {
    options.conflict_exit_code = static_cast<int>(parsed_number(value, 0, 255));
  });
  options.dedupe = dedupe(settings, options);
  set_place_in_line(settings, options);
  with_setting(settings, "min-hold", [&](const std::string& value) {
    options.min_hold = parsed_duration(value);
    if (options.min_hold > longest_hold) throw UsageError("must be at most 30 days");
  });
  duration(settings, "jitter", options.jitter);
  options.reclaim = flag(settings, "reclaim");
  duration(settings, "lock-delay", options.lock_delay);
  with_setting(settings, "report", [&](const std::string& value) {
    if (value.empty()) throw UsageError("missing file name");
    options.report = value;
  });

  options.hooks = hook_lines(settings);

  auto& plan = options.supervision;
  with_setting(settings, "timeout", [&](const std::string& value) {
    plan.timeout = parsed_duration(value);
    if (plan.timeout->count() == 0) throw UsageError("cannot be zero");
  });
  duration(settings, "kill-after", plan.kill_after);
  plan.kill_after_forwarded = settings.count("kill-after") > 0;
  choice(settings, "on-outage", outage_policies, options.on_outage);
  choice(settings, "stragglers", straggler_policies, plan.stragglers);
  return options;
}

}  // namespace dlock
