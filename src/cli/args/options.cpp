#include "cli/args/options.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "cli/args/calendar.hpp"
#include "util/bits.hpp"
#include "util/process.hpp"
#include "util/small_file.hpp"
#include "util/text.hpp"
#include "util/users.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

// The settings of the verb that are in force, parsed into its options.
template <typename Options>
Settings take(Verb verb, const Settings& settings, Options& options) {
  auto chosen = in_force(settings, own_exclusions());
  take_own(verb, chosen, options);
  return chosen;
}

// The password is taken from the first of these: a file or a command that is named on the
// command line or in the environment, the variable, one that is named in the
// configuration, the URL.
void choose_password(const Settings& settings, const std::string& name,
                     std::optional<std::string>& password, std::string& password_file,
                     std::vector<std::string>& password_command) {
  const auto variable = settings.find(name);
  if (variable == settings.end()) return;
  for (const auto* from : {"-file", "-command"}) {
    const auto source = name + from;
    if (settings.count(source) > 0 && !is_from_file(settings, source)) return;
  }
  password = variable->second.value;
  password_file.clear();
  password_command.clear();
}

// The options that only some stores have a use for.
struct StoreOption {
  std::string_view beginning;  // of the names of the options
  bool (*has_use)(const StoreUrl& store);
  std::string_view stores;
};
constexpr StoreOption store_options[] = {
    {"replicas", [](const StoreUrl& store) { return store.kind->features.replicas; },
     "redis+sentinel://, redis+cluster:// and postgres://"},
    {"min-strength", [](const StoreUrl& store) { return store.kind->features.votes; },
     "redis+quorum://"},
    {"max-ttl", [](const StoreUrl& store) { return store.kind->features.votes; },
     "redis+quorum://"},
    {"sentinel-", [](const StoreUrl& store) { return store.kind->features.sentinels; },
     "redis+sentinel://"},
    {"schema", [](const StoreUrl& store) { return store.kind->schema != nullptr; },
     "postgres://"},
    {"tls-", [](const StoreUrl& store) { return store.uses_tls(); },
     "stores over TLS (rediss://, rediss+..., etcds://, postgres://)"},
};

// Throws if a flag of `run` is set that means nothing without --wait.
void require_wait(const Settings& settings, const RunOptions& options) {
  for (const auto* name : {"replace", "supersede"}) {
    if (options.wait || !flag(settings, name)) continue;
    throw NeedsAnother("--" + std::string(name) + " needs --wait",
                       is_from_file(settings, name));
  }
}

// Throws if it means nothing with so few slots.
void require_slots(const Settings& settings, const ClaimOptions& options,
                   const std::vector<AlsoLock>& also = {}) {
  const auto has_slots = [](const auto& lock) { return lock.slots > 1; };
  if (!options.spread || has_slots(options) || std::ranges::any_of(also, has_slots))
    return;
  throw NeedsAnother("--spread needs --slots of 2 or more",
                     is_from_file(settings, "spread"));
}

// Whoever reads the file can release the lock, but a token is short-lived, and its file
// was made by the shell of the caller with the usual permissions.
Token token_in(const std::string& path) {
  constexpr std::size_t longest = 64u << 10;
  const FileKind kind{"token file " + printable(path, 200), longest, Use::credential};
  auto text = small_file(path, kind).text;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return parsed_token(text);
}

}  // namespace

CommonOptions common_options(const Settings& settings) {
  CommonOptions options;
  const auto chosen = in_force(settings, common_exclusions());
  take_common(chosen, options);
  if (chosen.count("store-timeout") == 0) options.store_timeout.reset();
  auto& login = options.login;
  choose_password(chosen, "password", login.password, login.password_file,
                  login.password_command);
  std::vector<std::string> none;
  choose_password(chosen, "sentinel-password", login.sentinel_password,
                  login.sentinel_password_file, none);
  if (login.tls.certificate.empty() != login.tls.key.empty()) {
    throw UsageError("--tls-cert and --tls-key must be set together",
                     is_from_file(chosen, "tls-cert") || is_from_file(chosen, "tls-key"));
  }
  options.store.set(login);
  return options;
}

std::vector<std::string> exposed_secrets(const CommonOptions& common,
                                         const Settings& settings) {
  std::vector<std::string> warnings;
  if (!common.store.leases_expire()) return warnings;  // not on a server: none is used
  for (const auto* name :
       {"password-file", "sentinel-password-file", "tls-key", "tls-key-password-file"}) {
    const auto file = settings.find(name);
    if (file == settings.end() || !is_given_to_everyone(file->second.value)) continue;
    warnings.push_back("warning: every user of this machine can read " +
                       printable(file->second.value) + " (--" + name +
                       "): mount it with mode 0440 or 0400");
  }
  return warnings;
}

void refuse_useless_options(const Settings& settings, const StoreUrl& store) {
  const bool connects = store.kind->form.place == UrlForm::Place::servers;
  for (const auto& [name, setting] : settings) {
    if (setting.source != Setting::Source::command_line) continue;
    const auto* option = std::ranges::find_if(
        store_options, [&](const auto& one) { return name.starts_with(one.beginning); });
    if (option == std::end(store_options) || option->has_use(store)) continue;
    // Without a connection, settings of connections are ignored like a login.
    if (option->beginning.ends_with('-') && !connects) continue;
    throw Failure::unsupported("--" + name + ": not on this kind of store, only on " +
                               std::string(option->stores));
  }
}

milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl) {
  if (common.store_timeout) return *common.store_timeout;
  auto usual = parsed_duration(common_option("store-timeout")->usual);
  const auto* kind = common.store.kind;
  if (kind != nullptr && !common.store.leases_expire()) ttl.reset();
  if (ttl) usual = std::min(usual, *ttl / 10);
  const bool may_say = kind != nullptr && kind->timeout != nullptr;
  const auto wanted = may_say ? kind->timeout(common.store) : std::nullopt;
  if (!wanted) return usual;
  // A lease lasts for several attempts, whatever other programs may wait for.
  return ttl ? std::min(*wanted, std::max(usual, *ttl / 5)) : *wanted;
}

std::vector<Fence> outer_fences_of(std::string_view held, const std::string& name) {
  std::vector<Fence> fences;
  const auto wanted = percent_encoded(name);
  for (const auto entry : split(held, ' ')) {
    const auto equals = entry.rfind('=');
    if (equals == std::string_view::npos || entry.substr(0, equals) != wanted) continue;
    const auto number = number_in<std::uint64_t>(entry.substr(equals + 1));
    if (number) fences.push_back(Fence{*number});
  }
  return fences;
}

DedupeWindow parsed_dedupe_window(const std::string& text) {
  const bool is_word = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0]));
  if (is_word || text.find('@') != std::string::npos) return current_period(text);
  DedupeWindow window;
  window.span = parsed_kept_time(text);
  return window;
}

milliseconds splay_for(const std::string& host, const std::string& lock,
                       milliseconds most) {
  if (most.count() == 0) return most;
  const auto key = (host + '\0') + lock;
  return milliseconds(fixed_up_to(static_cast<std::uint64_t>(most.count()), key));
}

RunOptions run_options(const Settings& settings, const std::string& name,
                       std::vector<std::string> command) {
  RunOptions options;
  options.name = parsed_name(name);
  options.command = std::move(command);
  const auto chosen = take(Verb::run, settings, options);
  if (options.retry_failed && settings.count("dedupe") == 0) {
    throw NeedsAnother("--retry-failed needs --dedupe",
                       is_from_file(settings, "retry-failed"));
  }
  const auto& window = options.dedupe_window;
  if (window.span.count() > 0) {
    options.dedupe = Dedupe{window.span, options.retry_failed, false, window.began};
  }
  if (chosen.count("keep-output") > 0 && !is_from_file(chosen, "keep-output") &&
      !options.output.on_failure) {
    throw NeedsAnother("--keep-output needs --output on-failure", false);
  }
  require_wait(chosen, options);
  require_slots(chosen, options, options.also);
  options.supervision.kill_after_forwarded = chosen.count("kill-after") > 0;
  return options;
}

AcquireOptions acquire_options(const Settings& settings, const std::string& name) {
  using Form = AcquireOptions::Form;
  AcquireOptions options;
  options.name = parsed_name(name);
  const auto chosen = take(Verb::acquire, settings, options);
  require_slots(chosen, options);
  options.form = options.exports        ? Form::variables
                 : flag(chosen, "json") ? Form::json
                                        : Form::token;
  return options;
}

LeaseOptions lease_options(const Settings& settings, const std::string& name) {
  LeaseOptions options;
  options.name = parsed_name(name);
  const auto chosen = take(Verb::renew, settings, options);
  with_setting(chosen, "token-file",
               [&](const Setting& file) { options.token = token_in(file.value); });
  if (chosen.count("token-file") == 0 && chosen.count("token") == 0) {
    throw UsageError("missing token (use --token, --token-file or DLOCK_TOKEN)");
  }
  return options;
}

CheckOptions check_options(const Settings& settings,
                           const std::optional<std::string>& name,
                           const RunAbove& above) {
  CheckOptions options;
  if (!name && above.name.empty()) {
    throw UsageError("missing lock name, and DLOCK_NAME is not set");
  }
  options.name = parsed_name(name.value_or(above.name));
  take(Verb::check, settings, options);
  const auto given = settings.find("fence");
  if (given != settings.end() && given->second.source == Setting::Source::command_line) {
    return options;
  }
  // DLOCK_FENCE is the fence of the innermost run; another lock may be held by an outer
  // one. A run without the lock has a name but no fence, and no grant has fence 0.
  const bool is_above = options.name == above.name;
  const auto held =
      is_above ? std::vector<Fence>() : outer_fences_of(above.held, options.name);
  if (!held.empty()) {
    options.fence = held.back();
  } else if (given == settings.end() && !is_above) {
    throw UsageError("missing fence (use --fence or DLOCK_FENCE)");
  }
  return options;
}

CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command) {
  CacheOptions options;
  const std::string prefix = "cache:";
  if (key.size() + prefix.size() > longest_text) {
    throw UsageError("a key can have at most " +
                     std::to_string(longest_text - prefix.size()) +
                     " bytes; this one has " + std::to_string(key.size()));
  }
  options.name = prefix + parsed_name(key);
  options.command = std::move(command);
  take(Verb::cache, settings, options);
  const bool runs = !options.forget && !options.show;
  if (runs == options.command.empty()) {
    throw UsageError(options.forget ? "--forget takes no command"
                     : options.show ? "--show takes no command"
                                    : "missing command (usage: dlock cache "
                                      "[OPTIONS] KEY [--] COMMAND [ARG...])",
                     is_from_file(settings, options.show ? "show" : "forget"));
  }
  options.waits_for_store = settings.count("wait") > 0 && options.wait.count() > 0;
  return options;
}

LimitOptions limit_options(const Settings& settings,
                           const std::vector<std::string>& operands,
                           std::vector<std::string> command) {
  LimitOptions options;
  options.name = parsed_name(operands.at(0));
  take(Verb::limit, settings, options);
  if (options.show || options.reset) {
    if (operands.size() > 1 || !command.empty()) {
      throw UsageError(
          "--show and --reset take only a name (usage: dlock limit NAME --show)",
          is_from_file(settings, options.show ? "show" : "reset"));
    }
    return options;
  }
  if (operands.size() < 2) {
    throw UsageError(
        "missing rate, such as 5/1s (usage: dlock limit [OPTIONS] "
        "NAME N/PERIOD [--] [COMMAND [ARG...]])");
  }
  options.rate = parsed_rate(operands.at(1));
  options.command = std::move(command);
  return options;
}

bool PartyOptions::means(const Owner& owner_of_it, const Description& description) const {
  const auto& [host_of_it, user] = owner_of_it;
  const auto& text = description.label;
  if (mine && (host_of_it != host_name() || user != own_user())) return false;
  if (!label.empty() && (text.empty() || !matches_glob(label, text))) return false;
  return (host.empty() || host == host_of_it) && (owner.empty() || owner == user);
}

ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands) {
  using Form = ListOptions::Form;
  ListOptions options;
  if (!operands.empty()) options.pattern = operands.front();
  const auto chosen = take(Verb::list, settings, options);
  options.form = options.live           ? Form::live
                 : options.prometheus   ? Form::metrics
                 : flag(chosen, "json") ? Form::json
                                        : Form::table;
  return options;
}

HistoryOptions history_options(const Settings& settings,
                               const std::vector<std::string>& operands) {
  HistoryOptions options;
  if (!operands.empty()) options.pattern = operands.front();
  options.name = literal_of(options.pattern);
  if (options.name) parsed_name(*options.name);
  take(Verb::history, settings, options);
  if (options.nagios && !options.succeeded_within) {
    options.nagios = false;
    if (!is_from_file(settings, "nagios")) {
      throw UsageError("--nagios needs --succeeded-within");
    }
  }
  if (!options.succeeded_within) return options;
  // In a file these are for calls without --succeeded-within.
  for (const auto* other : {"failed", "since", "host", "owner", "mine", "label"}) {
    if (settings.count(other) > 0 && !is_from_file(settings, other)) {
      throw UsageError("--succeeded-within and --" + std::string(other) +
                       " cannot be combined");
    }
  }
  if (!options.name) {
    throw UsageError(operands.empty()
                         ? "which lock? --succeeded-within needs its name"
                         : "--succeeded-within needs the name of one lock, not a pattern "
                           "(with \\ before * ? [ and \\)",
                     is_from_file(settings, "succeeded-within"));
  }
  return options;
}

DoctorOptions doctor_options(const Settings& settings) {
  DoctorOptions options;
  take(Verb::doctor, settings, options);
  return options;
}

BreakOptions break_options(const Settings& settings,
                           const std::vector<std::string>& operands) {
  BreakOptions options;
  for (const auto& operand : operands) {
    const auto name = literal_of(operand);
    auto& list = name ? options.names : options.patterns;
    const auto& word = name ? parsed_name(*name) : operand;
    if (std::ranges::count(list, word) == 0) list.push_back(word);
  }
  take(Verb::break_lock, settings, options);
  // From a file it only narrows down what the command line names.
  const bool is_all = !options.host.empty() && !is_from_file(settings, "host");
  if (operands.empty() && !is_all) {
    throw UsageError("missing lock name, or --host H for all locks of a host");
  }
  if (operands.empty()) options.patterns.emplace_back("*");
  if (options.fence && (options.names.size() != 1 || !options.patterns.empty())) {
    throw UsageError("--fence is that of one lock: name only that one",
                     is_from_file(settings, "fence"));
  }
  return options;
}

}  // namespace dlock
