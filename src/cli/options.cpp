#include "cli/options.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "cli/nesting.hpp"
#include "util/fd.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

struct Unit {
  std::string_view name;
  double in_milliseconds;
};
constexpr Unit units[] = {
    {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};

// What a sum of decimal fractions may be off.
constexpr double rounding = 1e-6;

// Far beyond any use, and far from where nanoseconds would run over.
constexpr double longest = 100.0 * 366 * 86'400'000;

constexpr milliseconds shortest_ttl{500};

// What stores keep of a lock that nobody uses.
constexpr milliseconds kept_for = std::chrono::hours(30 * 24);
constexpr std::size_t longest_name = 255;
constexpr unsigned most_slots = 100'000;
constexpr unsigned highest_rate = 10'000;

UsageError no_duration(std::string_view text) {
  return UsageError("'" + printable(text, 60) +
                    "' is not a duration (such as 30s, 5m, 1h30m, 250ms or 0.5)");
}

// Digits with at most one point among them, taken off the front of `text`.
double take_number(std::string_view& text, std::string_view whole) {
  const auto end = text.find_first_not_of("0123456789.");
  const auto digits = text.substr(0, end);
  double number = 0;
  const auto* last = digits.data() + digits.size();
  const auto [parsed, error] =
      std::from_chars(digits.data(), last, number, std::chars_format::fixed);
  if (error != std::errc() || parsed != last) throw no_duration(whole);
  text.remove_prefix(digits.size());
  return number;
}

// Calls `use` with the setting `name` if there is one, and tells where a value that it
// refuses came from.
template <typename Use>
void with(const Settings& settings, std::string_view name, Use use) {
  const auto found = settings.find(name);
  if (found == settings.end()) return;
  const auto& setting = found->second;
  try {
    use(setting.value);
  } catch (const UsageError& error) {
    throw UsageError(setting.origin + ": " + error.what(),
                     setting.source == Setting::Source::file);
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), setting.origin + ": " + failure.what());
  }
}

bool flag(const Settings& settings, std::string_view name) {
  bool set = false;
  with(settings, name, [&](const std::string& value) {
    if (value != "true" && value != "false") {
      throw UsageError("'" + printable(value, 60) + "' is neither true nor false");
    }
    set = value == "true";
  });
  return set;
}

// A word that an option takes, and what it means.
template <typename Meaning>
struct Choice {
  std::string_view word;
  Meaning meaning;
};

constexpr Choice<Color> colors[] = {
    {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};
constexpr Choice<OnOutage> outage_policies[] = {{"stop", OnOutage::stop},
                                                {"run", OnOutage::run}};
constexpr Choice<Stragglers> straggler_policies[] = {
    {"leave", Stragglers::leave}, {"wait", Stragglers::wait}, {"kill", Stragglers::kill}};

UsageError no_choice(const std::string& value,
                     const std::vector<std::string_view>& words) {
  std::string listed;
  for (const auto word : words) {
    if (!listed.empty()) listed += words.size() == 2 ? " nor " : ", ";
    listed += word;
  }
  auto message = "'" + printable(value, 60) +
                 (words.size() == 2 ? "' is neither " : "' is none of ") + listed;
  if (const auto meant = nearest(value, words)) {
    message += ": did you mean '" + std::string(*meant) + "'?";
  }
  return UsageError(message);
}

template <typename Meaning, std::size_t size>
void choice(const Settings& settings, std::string_view name,
            const Choice<Meaning> (&choices)[size], Meaning& target) {
  with(settings, name, [&](const std::string& value) {
    const auto* chosen = std::find_if(std::begin(choices), std::end(choices),
                                      [&](const auto& c) { return c.word == value; });
    if (chosen == std::end(choices)) {
      std::vector<std::string_view> words;
      for (const auto& choice : choices) words.push_back(choice.word);
      throw no_choice(value, words);
    }
    target = chosen->meaning;
  });
}

bool is_from_file(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found != settings.end() && found->second.source == Setting::Source::file;
}

// Whether of two options that are set and exclude each other the first gives way: it is
// from the file, and the other is not.
bool gives_way(const Settings& settings, std::string_view name, std::string_view other) {
  return is_from_file(settings, name) && !is_from_file(settings, other);
}

// What is to be thrown if neither gives way.
UsageError excluded(const Settings& settings, std::string_view name,
                    std::string_view other) {
  return UsageError(
      "--" + std::string(name) + " and --" + std::string(other) + " do not go together",
      is_from_file(settings, name) && is_from_file(settings, other));
}

std::string file_name(const Settings& settings, std::string_view name) {
  std::string path;
  with(settings, name, [&](const std::string& value) {
    if (value.empty()) throw UsageError("a file's name is missing");
    if (value.find('\0') != std::string::npos) throw UsageError("no name of a file");
    path = value;
  });
  return path;
}

redis::TlsPlan tls_plan(const Settings& settings) {
  redis::TlsPlan plan;
  plan.ca = file_name(settings, "tls-ca");
  plan.certificate = file_name(settings, "tls-cert");
  plan.key = file_name(settings, "tls-key");
  plan.insecure = flag(settings, "tls-insecure");
  if (plan.certificate.empty() != plan.key.empty()) {
    throw UsageError(
        "--tls-cert and --tls-key go together",
        is_from_file(settings, "tls-cert") || is_from_file(settings, "tls-key"));
  }
  return plan;
}

// Puts what was set for the login in the place of what the URL says. A password comes
// from one place: a file that the command line or the environment names, the variable, a
// file that the configuration names, the URL.
void set_login(const Settings& settings, redis::Target& target) {
  with(settings, "user", [&](const std::string& value) {
    if (value.empty()) throw UsageError("a user's name is missing");
    if (!is_printable_utf8(value)) throw UsageError("not a name of printable UTF-8");
    target.user = value;
  });
  const auto file = file_name(settings, "password-file");
  const auto variable = settings.find("password");
  if (!file.empty() &&
      (variable == settings.end() || !is_from_file(settings, "password-file"))) {
    target.password_file = file;
    target.password.reset();
  } else if (variable != settings.end()) {
    target.password = variable->second.value;
  }
}

void duration(const Settings& settings, std::string_view name, milliseconds& target) {
  with(settings, name,
       [&](const std::string& value) { target = parsed_duration(value); });
}

// Takes --shared and --slots back from `run` where they give way to it.
std::optional<Dedupe> dedupe(const Settings& settings, RunOptions& run) {
  Dedupe dedupe;
  duration(settings, "dedupe", dedupe.window);
  with(settings, "dedupe", [&](const std::string&) {
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

// What the store keeps and others are shown.
std::string parsed_text(const std::string& text, const std::string& what) {
  if (text.empty()) throw UsageError("a " + what + " cannot be empty");
  if (text.size() > longest_name) {
    throw UsageError("a " + what + " has at most 255 bytes; this one has " +
                     std::to_string(text.size()));
  }
  if (!is_printable_utf8(text)) {
    throw UsageError("'" + printable(text) + "' has bytes that are not printable UTF-8");
  }
  return text;
}

void set_ttl(const Settings& settings, milliseconds& ttl) {
  with(settings, "ttl", [&](const std::string& value) {
    ttl = parsed_duration(value);
    if (ttl < shortest_ttl) throw UsageError("a ttl is 500ms at least");
  });
}

std::optional<milliseconds> wait(const Settings& settings) {
  std::optional<milliseconds> chosen;
  with(settings, "wait", [&](const std::string& value) {
    const auto span = value == "forever" ? milliseconds::max() : parsed_duration(value);
    if (span.count() > 0) chosen = span;
  });
  return chosen;
}

void set_claim(const Settings& settings, const std::string& name, ClaimOptions& options) {
  options.name = parsed_name(name);
  options.wait = wait(settings);
  set_ttl(settings, options.ttl);
  with(settings, "slots", [&](const std::string& value) {
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
  with(settings, "label",
       [&](const std::string& value) { options.label = parsed_text(value, "label"); });
}

Token parsed_token(std::string_view text) {
  // Not with the text: it may be a token but for a letter.
  const auto token = token_from(text);
  if (!token) throw UsageError("not a token (32 hexadecimal digits)");
  return *token;
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
    with(settings, "token-file",
         [&](const std::string& value) { token = parsed_token(token_in(value)); });
  } else {
    with(settings, "token",
         [&](const std::string& value) { token = parsed_token(value); });
  }
  if (!token) {
    throw UsageError("the token is missing (--token, --token-file or DLOCK_TOKEN)");
  }
  return *token;
}

}  // namespace

milliseconds parsed_duration(std::string_view text) {
  const auto whole = text;
  if (text.empty()) throw no_duration(whole);
  double sum = 0;
  const Unit* next = std::begin(units);
  do {
    const double number = take_number(text, whole);
    const auto end = text.find_first_of("0123456789.");
    const auto name = text.substr(0, end);
    const bool plain =
        name.empty() && sum == 0 && text.empty() && next == std::begin(units);
    const auto* unit = std::find_if(next, std::end(units), [&](const Unit& u) {
      return u.name == (plain ? "s" : name);
    });
    if (unit == std::end(units)) throw no_duration(whole);
    sum += number * unit->in_milliseconds;
    next = unit + 1;
    text.remove_prefix(name.size());
  } while (!text.empty());
  if (sum > longest) {
    throw UsageError("'" + printable(whole, 60) + "' is longer than 100 years");
  }
  return milliseconds(static_cast<std::int64_t>(std::ceil(sum - rounding)));
}

unsigned parsed_number(std::string_view text, unsigned least, unsigned most) {
  unsigned number = 0;
  const auto* last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || parsed != last || number < least || number > most) {
    throw UsageError("'" + printable(text, 60) + "' is not a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

std::size_t parsed_size(std::string_view text) {
  constexpr std::pair<std::string_view, std::uint64_t> size_units[] = {
      {"", 1},         {"B", 1},          {"KB", 1000},        {"KiB", 1u << 10},
      {"MB", 1000000}, {"MiB", 1u << 20}, {"GB", 1000000000u}, {"GiB", 1u << 30}};
  // What a string of a Redis server can have.
  constexpr std::uint64_t most = std::uint64_t{512} << 20;
  std::uint64_t number = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view name(end, static_cast<std::size_t>(last - end));
  const auto* unit = std::find_if(std::begin(size_units), std::end(size_units),
                                  [&](const auto& u) { return u.first == name; });
  if (error == std::errc::invalid_argument || unit == std::end(size_units)) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a size (such as 16MiB, 500KB or 4096)");
  }
  if (error != std::errc() || number > most / unit->second) {
    throw UsageError("'" + printable(text, 60) + "' is more than 512MiB");
  }
  return number * unit->second;
}

Rate parsed_rate(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a rate (such as 5/800ms, 1/s, 100/1m or 1000/1h)");
  }
  Rate rate;
  rate.most = parsed_number(text.substr(0, slash), 1, highest_rate);
  std::string period(text.substr(slash + 1));
  const bool is_unit = std::any_of(std::begin(units), std::end(units),
                                   [&](const Unit& unit) { return unit.name == period; });
  if (is_unit) period.insert(0, 1, '1');
  rate.period = parsed_duration(period);
  if (rate.period.count() == 0) throw UsageError("the period of a rate cannot be zero");
  return rate;
}

std::string parsed_name(const std::string& text) { return parsed_text(text, "name"); }

CommonOptions common_options(const Settings& settings) {
  CommonOptions options;
  with(settings, "store",
       [&](const std::string& value) { options.store = parsed_store_url(value); });
  // Also for a store that has no use for them, so that a mistake is found at once.
  set_login(settings, options.store.target);
  if (const auto plan = tls_plan(settings); options.store.target.tls) {
    options.store.target.tls = plan;
  }
  with(settings, "namespace",
       [&](const std::string& value) { options.name_space = parsed_name(value); });
  with(settings, "store-timeout", [&](const std::string& value) {
    options.store_timeout = parsed_duration(value);
    if (options.store_timeout->count() == 0) throw UsageError("cannot be zero");
  });
  choice(settings, "color", colors, options.color);
  options.json = flag(settings, "json");
  options.quiet = flag(settings, "quiet");
  options.verbose = flag(settings, "verbose");
  if (options.quiet && options.verbose) {
    options.quiet = !gives_way(settings, "quiet", "verbose");
    options.verbose = !gives_way(settings, "verbose", "quiet");
  }
  return options;
}

RunOptions run_options(const Settings& settings, const std::string& name,
                       std::vector<std::string> command) {
  RunOptions options;
  set_claim(settings, name, options);
  options.command = std::move(command);
  with(settings, "conflict-exit-code", [&](const std::string& value) {
    options.conflict_exit_code = static_cast<int>(parsed_number(value, 0, 255));
  });
  options.dedupe = dedupe(settings, options);
  with(settings, "min-hold", [&](const std::string& value) {
    options.min_hold = parsed_duration(value);
    if (options.min_hold > kept_for)
      throw UsageError("a lock is held on for 30 days at most");
  });
  duration(settings, "jitter", options.jitter);
  options.reclaim = flag(settings, "reclaim");
  duration(settings, "lock-delay", options.lock_delay);
  with(settings, "report", [&](const std::string& value) {
    if (value.empty()) throw UsageError("a file's name is missing");
    options.report = value;
  });

  auto& plan = options.supervision;
  with(settings, "timeout", [&](const std::string& value) {
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
  with(settings, "for-pid", [&](const std::string& value) {
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
  with(settings, "fence", [&](const std::string& value) { fence = parsed_fence(value); });
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

Fence parsed_fence(std::string_view text) {
  Fence fence;
  const auto* last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, fence.number);
  if (error != std::errc() || parsed != last || fence.number == 0 ||
      fence.number > std::uint64_t{INT64_MAX}) {
    throw UsageError("'" + printable(text, 60) +
                     "' is not a fence (a whole number from 1)");
  }
  return fence;
}

CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command) {
  CacheOptions options;
  const std::string prefix = "cache:";
  if (key.size() + prefix.size() > longest_name) {
    throw UsageError("a key has at most " + std::to_string(longest_name - prefix.size()) +
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
  with(settings, "ttl", [&](const std::string& value) {
    options.lifetime.ttl = parsed_duration(value);
    if (options.lifetime.ttl.count() == 0) throw UsageError("cannot be zero");
  });
  duration(settings, "stale", options.lifetime.stale);
  with(settings, "max-size",
       [&](const std::string& value) { options.max_size = parsed_size(value); });
  with(settings, "wait", [&](const std::string& value) {
    options.wait = value == "forever" ? milliseconds::max() : parsed_duration(value);
    options.waits_for_store = options.wait.count() > 0;
  });
  with(settings, "conflict-exit-code", [&](const std::string& value) {
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
  with(settings, "limit", [&](const std::string& value) {
    options.limit = parsed_number(value, 1, 1'000'000);
  });
  return options;
}

BreakOptions break_options(const Settings& settings, const std::string& name) {
  BreakOptions options;
  options.name = parsed_name(name);
  with(settings, "fence",
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

milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl) {
  constexpr milliseconds usual{2000};
  if (common.store_timeout) return *common.store_timeout;
  return ttl ? std::min(usual, *ttl / 10) : usual;
}

}  // namespace dlock
