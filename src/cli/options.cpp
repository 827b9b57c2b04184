#include "cli/options.hpp"

#include <fcntl.h>

#include <cerrno>

#include "cli/nesting.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

constexpr milliseconds shortest_ttl{500};

// What stores keep of a lock that nobody uses.
constexpr milliseconds kept_for = std::chrono::hours(30 * 24);
constexpr unsigned most_slots = 100'000;

constexpr Choice<OnOutage> outage_policies[] = {{"stop", OnOutage::stop},
                                                {"run", OnOutage::run}};
constexpr Choice<Stragglers> straggler_policies[] = {
    {"leave", Stragglers::leave}, {"wait", Stragglers::wait}, {"kill", Stragglers::kill}};

// Takes --shared and --slots back from `run` where they give way to it.
std::optional<Dedupe> dedupe(const Settings& settings, RunOptions& run) {
  Dedupe dedupe;
  duration(settings, "dedupe", dedupe.window);
  with_setting(settings, "dedupe", [&](const std::string&) {
    if (dedupe.window > kept_for) throw UsageError("runs are known for 30 days at most");
  });
  dedupe.retry_failed = flag(settings, "retry-failed");
  if (dedupe.retry_failed && settings.count("dedupe") == 0) {
    throw UsageError("--retry-failed goes with --dedupe only",
                     is_from_file(settings, "retry-failed"));
  }
  if (dedupe.window.count() == 0) return std::nullopt;
  // Runs that go on side by side are meant to be several.
  if (!run.shared && run.slots == 1) return dedupe;
  const std::string_view other = run.shared ? "shared" : "slots";
  if (gives_way(settings, other, "dedupe")) {
    run.shared = false;
    run.slots = 1;
    return dedupe;
  }
  // Who says --retry-failed wants the dedupe of the file.
  const bool is_wanted = dedupe.retry_failed && !is_from_file(settings, "retry-failed");
  if (is_wanted || !gives_way(settings, "dedupe", other)) {
    throw excluded(settings, "dedupe", other);
  }
  return std::nullopt;
}

void set_ttl(const Settings& settings, milliseconds& ttl) {
  with_setting(settings, "ttl", [&](const std::string& value) {
    ttl = parsed_duration(value);
    if (ttl < shortest_ttl) throw UsageError("a ttl is 500ms at least");
  });
}

std::optional<milliseconds> wait(const Settings& settings) {
  std::optional<milliseconds> chosen;
  with_setting(settings, "wait", [&](const std::string& value) {
    const auto span = value == "forever" ? milliseconds::max() : parsed_duration(value);
    if (span.count() > 0) chosen = span;
  });
  return chosen;
}

void set_claim(const Settings& settings, const std::string& name, ClaimOptions& options) {
  options.name = parsed_name(name);
  options.wait = wait(settings);
  set_ttl(settings, options.ttl);
  with_setting(settings, "slots", [&](const std::string& value) {
    options.slots = parsed_number(value, 1, most_slots);
  });
  options.shared = flag(settings, "shared");
  if (options.shared && settings.count("slots") > 0) {
    const bool is_shared = gives_way(settings, "slots", "shared");
    if (!is_shared && !gives_way(settings, "shared", "slots"))
      throw excluded(settings, "shared", "slots");
    options.shared = is_shared;
    if (is_shared) options.slots = 1;
  }
  with_setting(settings, "label", [&](const std::string& value) {
    options.label = parsed_text(value, "label");
  });
}

// Any file, also a pipe: unlike a password a token does not last.
std::string token_in(const std::string& path) {
  const auto name = "the token's file " + printable(path, 200);
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) throw failure_of(errno, name);
  std::string text;
  char buffer[256];
  for (;;) {
    const auto size = ::read(file.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw failure_of(errno, name);
    text.append(buffer, static_cast<std::size_t>(size));
    if (size == 0 || text.size() > sizeof buffer) break;
  }
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

Token token(const Settings& settings) {
  const auto given = settings.find("token");
  const auto file = settings.find("token-file");
  std::optional<Token> token;
  // The environment's comes last.
  if (file != settings.end() &&
      (given == settings.end() || given->second.source >= file->second.source)) {
    if (given != settings.end() && given->second.source == file->second.source) {
      throw UsageError("--token and --token-file do not go together",
                       is_from_file(settings, "token"));
    }
    with_setting(settings, "token-file", [&](const std::string& value) {
      token = parsed_token(token_in(value));
    });
  } else {
    with_setting(settings, "token",
                 [&](const std::string& value) { token = parsed_token(value); });
  }
  if (!token) {
    throw UsageError("the token is missing (--token, --token-file or DLOCK_TOKEN)");
  }
  return *token;
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
  with_setting(settings, "min-hold", [&](const std::string& value) {
    options.min_hold = parsed_duration(value);
    if (options.min_hold > kept_for)
      throw UsageError("a lock is held on for 30 days at most");
  });
  duration(settings, "jitter", options.jitter);
  options.reclaim = flag(settings, "reclaim");
  duration(settings, "lock-delay", options.lock_delay);
  with_setting(settings, "report", [&](const std::string& value) {
    if (value.empty()) throw UsageError("a file's name is missing");
    options.report = value;
  });

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

AcquireOptions acquire_options(const Settings& settings, const std::string& name) {
  AcquireOptions options;
  set_claim(settings, name, options);
  with_setting(settings, "for-pid", [&](const std::string& value) {
    options.for_pid = static_cast<pid_t>(parsed_number(value, 1, INT32_MAX));
  });
  return options;
}

LeaseOptions lease_options(const Settings& settings, const std::string& name) {
  LeaseOptions options;
  options.name = parsed_name(name);
  options.token = token(settings);
  set_ttl(settings, options.ttl);
  return options;
}

CheckOptions check_options(const Settings& settings,
                           const std::optional<std::string>& name,
                           const RunAbove& above) {
  CheckOptions options;
  if (!name && above.name.empty()) {
    throw UsageError("the name of a lock is missing, and DLOCK_NAME is not set");
  }
  options.name = parsed_name(name.value_or(above.name));
  std::optional<Fence> fence;
  with_setting(settings, "fence",
               [&](const std::string& value) { fence = parsed_fence(value); });
  // DLOCK_FENCE is that of the innermost run; another lock may be held further out.
  const auto given = settings.find("fence");
  const bool is_given =
      given != settings.end() && given->second.source == Setting::Source::command_line;
  if (!is_given && options.name != above.name) {
    const auto held = fences_held_above(above.held, options.name);
    if (!held.empty()) fence = held.back();
  }
  // A run that goes on without the lock has a name but no fence, and no grant has this
  // one.
  if (!fence && options.name == above.name) fence = Fence{0};
  if (!fence) throw UsageError("the fence is missing (--fence or DLOCK_FENCE)");
  options.fence = *fence;
  duration(settings, "min-validity", options.min_validity);
  return options;
}

CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command) {
  CacheOptions options;
  const std::string prefix = "cache:";
  if (key.size() + prefix.size() > longest_text) {
    throw UsageError("a key has at most " + std::to_string(longest_text - prefix.size()) +
                     " bytes; this one has " + std::to_string(key.size()));
  }
  options.name = prefix + parsed_name(key);
  options.command = std::move(command);
  options.forget = flag(settings, "forget");
  if (options.forget != options.command.empty()) {
    throw UsageError(options.forget ? "--forget runs no command"
                                    : "a command is missing (usage: dlock cache "
                                      "[OPTIONS] KEY [--] COMMAND [ARG...])",
                     is_from_file(settings, "forget"));
  }
  with_setting(settings, "ttl", [&](const std::string& value) {
    options.lifetime.ttl = parsed_duration(value);
    if (options.lifetime.ttl.count() == 0) throw UsageError("cannot be zero");
  });
  duration(settings, "stale", options.lifetime.stale);
  with_setting(settings, "max-size",
               [&](const std::string& value) { options.max_size = parsed_size(value); });
  with_setting(settings, "wait", [&](const std::string& value) {
    options.wait = value == "forever" ? milliseconds::max() : parsed_duration(value);
    options.waits_for_store = options.wait.count() > 0;
  });
  with_setting(settings, "conflict-exit-code", [&](const std::string& value) {
    options.conflict_exit_code = static_cast<int>(parsed_number(value, 0, 255));
  });
  return options;
}

ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands) {
  using Form = ListOptions::Form;
  constexpr std::pair<const char*, Form> forms[] = {
      {"json", Form::json}, {"prometheus", Form::metrics}, {"live", Form::live}};
  ListOptions options;
  if (!operands.empty()) options.pattern = operands.front();
  const char* wanted = nullptr;
  for (const auto& [name, form] : forms) {
    if (!flag(settings, name)) continue;
    if (wanted != nullptr &&
        is_from_file(settings, name) != is_from_file(settings, wanted)) {
      if (is_from_file(settings, name)) continue;
    } else if (wanted != nullptr) {
      throw UsageError(
          std::string("--") + wanted + " and --" + name + " exclude each other",
          is_from_file(settings, name));
    }
    wanted = name;
    options.form = form;
  }
  return options;
}

HistoryOptions history_options(const Settings& settings, const std::string& name) {
  HistoryOptions options;
  options.name = parsed_name(name);
  with_setting(settings, "limit", [&](const std::string& value) {
    options.limit = parsed_number(value, 1, 1'000'000);
  });
  return options;
}

BreakOptions break_options(const Settings& settings, const std::string& name) {
  BreakOptions options;
  options.name = parsed_name(name);
  with_setting(settings, "fence",
               [&](const std::string& value) { options.fence = parsed_fence(value); });
  options.yes = flag(settings, "yes");
  return options;
}

LimitOptions limit_options(const Settings& settings, const std::string& name,
                           const std::string& rate, std::vector<std::string> command) {
  LimitOptions options;
  options.name = parsed_name(name);
  options.rate = parsed_rate(rate);
  options.command = std::move(command);
  options.wait = wait(settings);
  return options;
}

}  // namespace dlock
