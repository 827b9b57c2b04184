#include "cli/args/option_table.hpp"

#include <algorithm>

#include "cli/args/option_setters.hpp"

namespace dlock {

// A separate namespace, because the verbs have names that functions have elsewhere.
namespace option_rows {
namespace {

using enum Verb;
constexpr VerbSet every_verb = ~VerbSet{0};

constexpr Choice<Color> colors[] = {
    {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};
constexpr Choice<bool> yes_or_no[] = {{"true", true}, {"false", false}};
constexpr Choice<OnOutage> outage_policies[] = {{"stop", OnOutage::stop},
                                                {"run", OnOutage::run}};
constexpr Choice<Stragglers> straggler_policies[] = {
    {"leave", Stragglers::leave}, {"wait", Stragglers::wait}, {"kill", Stragglers::kill}};
constexpr Choice<Notify> notify_modes[] = {
    {"dlock", Notify::dlock}, {"command", Notify::command}, {"off", Notify::off}};
constexpr Choice<ListOrder> orders[] = {{"name", ListOrder::name},
                                        {"age", ListOrder::age}};

// Shorter names for the rows.
using Common = CommonOptions;
using Tls = net::TlsOptions;
constexpr auto login = &Common::login;
constexpr auto plan = &RunOptions::supervision;
constexpr auto hooks = &RunOptions::hooks;

// The largest number of servers in a quorum, minus those needed for a grant.
constexpr unsigned most_strength = 4;
// More than any queue can have.
constexpr unsigned most_waiters = 100'000;
constexpr unsigned most_runs = 1'000'000;

constexpr OptionSpec common_rows[] = {
    {"store", 0, "URL", "DLOCK_STORE", every_verb,
     "local:", "local:, local:/dir, redis://host, ..., none:",
     into<parsed_store_url, &Common::store>},
    {"namespace", 0, "NS", "DLOCK_NAMESPACE", every_verb, "dlock",
     "prefix of every name (default %)", into<parsed_name, &Common::name_space>},
    {"config", 0, "FILE", "DLOCK_CONFIG", every_verb, "", "TOML configuration file",
     take_nothing},
    {"store-timeout", 0, "D", "DLOCK_STORE_TIMEOUT", every_verb, "2s",
     "time limit of a store operation (%)",
     into<parsed_time_limit, &Common::store_timeout>},
    {"user", 0, "NAME", "DLOCK_USER", every_verb, "", "log in to the store as NAME",
     into<parsed_user, login, &Credentials::user>},
    {"password-file", 0, "FILE", "DLOCK_PASSWORD_FILE", every_verb, "",
     "read the password from FILE",
     into<parsed_file_name, login, &Credentials::password_file>},
    {"password-command", 0, "CMD", "DLOCK_PASSWORD_COMMAND", every_verb, "",
     "run CMD for the password at each login", take_password_command},
    {"replicas", 0, "N", "DLOCK_REPLICAS", every_verb, "0",
     "replicas that must confirm a lease, or all",
     into<replicas, login, &Credentials::replicas>},
    {"sentinel-user", 0, "NAME", "DLOCK_SENTINEL_USER", every_verb, "",
     "log in to sentinels as NAME",
     into<parsed_user, login, &Credentials::sentinel_user>},
    {"sentinel-password-file", 0, "FILE", "DLOCK_SENTINEL_PASSWORD_FILE", every_verb, "",
     "read the sentinel password from FILE",
     into<parsed_file_name, login, &Credentials::sentinel_password_file>},
    {"sentinel-tls", 0, "WHAT", "DLOCK_SENTINEL_TLS", every_verb, "true",
     "use TLS for sentinels: true or false",
     into<choice<yes_or_no>, login, &Credentials::sentinel_tls>},
    {"min-strength", 0, "N", "DLOCK_MIN_STRENGTH", every_verb, "0",
     "minimum strength of a lease to start",
     into<number<0, most_strength>, login, &Credentials::terms,
          &QuorumTerms::least_strength>},
    {"max-ttl", 0, "D", "DLOCK_MAX_TTL", every_verb, "1m",
     "servers up for less do not vote (%)",
     into<parsed_duration, login, &Credentials::terms, &QuorumTerms::max_ttl>},
    {"address-map", 0, "FROM=TO", "DLOCK_ADDRESS_MAP", every_verb, "",
     "use TO for FROM, which servers announce",
     into<usage<AddressMap::parsed>, login, &Credentials::addresses>, ','},
    {"tls-ca", 0, "FILE", "DLOCK_TLS_CA", every_verb, "",
     "CA certificates, in place of the system's",
     into<parsed_file_name, login, &Credentials::tls, &Tls::ca>},
    {"tls-cert", 0, "FILE", "DLOCK_TLS_CERT", every_verb, "", "client certificate",
     into<parsed_file_name, login, &Credentials::tls, &Tls::certificate>},
    {"tls-key", 0, "FILE", "DLOCK_TLS_KEY", every_verb, "",
     "key of the client certificate",
     into<parsed_file_name, login, &Credentials::tls, &Tls::key>},
    {"tls-key-password-file", 0, "FILE", "DLOCK_TLS_KEY_PASSWORD_FILE", every_verb, "",
     "read the pass phrase of the key from FILE",
     into<key_password, login, &Credentials::tls, &Tls::key_password>},
    {"tls-name", 0, "NAME", "DLOCK_TLS_NAME", every_verb, "",
     "name that the certificate must have",
     into<parsed_tls_name, login, &Credentials::tls, &Tls::name>},
    {"tls-insecure", 0, "", "DLOCK_TLS_INSECURE", every_verb, "",
     "accept any certificate", flag<login, &Credentials::tls, &Tls::insecure>},
    {"json", 0, "", "", every_verb, "", "print one JSON document", flag<&Common::json>},
    {"quiet", 'q', "", "", every_verb, "", "print errors only", flag<&Common::quiet>},
    {"verbose", 'v', "", "", every_verb, "", "print each step", flag<&Common::verbose>},
    {"color", 0, "WHEN", "", every_verb, "auto", "auto, always or never",
     into<choice<colors>, &Common::color>},
};

constexpr OptionSpec own_rows[] = {
    {"wait", 'w', "D", "", of(run, acquire), "0", "queue for up to D, or forever",
     into<some<parsed_patience>, &ClaimOptions::wait>},
    {"ttl", 't', "D", "", of(run), "30s", "lease length (%); ignored by local:",
     into<parsed_lease_length, &ClaimOptions::ttl>},
    {"ttl", 't', "D", "", of(acquire), "30s", "lease length (%)",
     into<parsed_lease_length, &ClaimOptions::ttl>},
    {"slots", 'n', "N", "", of(run, acquire), "1", "holders allowed at a time (%)",
     take_slots},
    {"shared", 's', "", "", of(run, acquire), "",
     "share the lock with other shared holders", flag<&ClaimOptions::shared>},
    {"spread", 0, "", "", of(run, acquire), "", "with --slots: at most one slot a host",
     flag<&ClaimOptions::spread>},
    {"priority", 0, "N", "", of(run, acquire), "0",
     "place in the queue: -20 first, 19 last",
     into<parsed_priority, &ClaimOptions::priority>},
    {"also", 0, "LOCK", "", of(run), "", "hold LOCK as well: NAME[:shared|:slots=N]",
     take_also, also_separator},
    {"conflict-exit-code", 'E', "N", "", of(run), "75", "exit code if not acquired (%)",
     into<number<0, 255, int>, &RunOptions::conflict_exit_code>},
    {"dedupe", 0, "WINDOW", "", of(run), "0", "skip if running, or started within WINDOW",
     into<parsed_dedupe_window, &RunOptions::dedupe_window>},
    {"retry-failed", 0, "", "", of(run), "", "with --dedupe: failed runs do not count",
     flag<&RunOptions::retry_failed>},
    {"replace", 0, "", "", of(run), "", "take the lock from its holder",
     flag<&RunOptions::replace>},
    {"supersede", 0, "", "", of(run), "", "give way to a newer run with --supersede",
     flag<&RunOptions::supersede>},
    {"max-queue", 0, "N", "", of(run), "", "do not wait if N are already waiting",
     into<number<0, most_waiters>, &RunOptions::max_queue>},
    {"min-hold", 0, "D", "", of(run), "0", "hold the lock for at least D",
     into<parsed_kept_time, &RunOptions::min_hold>},
    {"timeout", 0, "D", "", of(run), "", "stop the command after D, exit 124",
     into<parsed_time_limit, plan, &SupervisionPlan::timeout>},
    {"kill-after", 'k', "D", "", of(run), "5s", "time from SIGTERM to SIGKILL (%)",
     into<parsed_duration, plan, &SupervisionPlan::kill_after>},
    {"jitter", 0, "D", "", of(run), "0", "first sleep for a random time of up to D",
     into<parsed_duration, &RunOptions::jitter>},
    {"splay", 0, "D", "", of(run), "0", "first sleep for this host's fixed part of D",
     into<parsed_duration, &RunOptions::splay>},
    {"on-outage", 0, "WHAT", "", of(run), "stop",
     "if the store is down: % (default) or run",
     into<choice<outage_policies>, &RunOptions::on_outage>},
    {"reclaim", 0, "", "", of(run), "", "restore a lease that the store has forgotten",
     flag<&RunOptions::reclaim>},
    {"lock-delay", 0, "D", "", of(run), "0", "the store keeps the lease D longer",
     into<parsed_duration, &RunOptions::lock_delay>},
    {"stragglers", 0, "WHAT", "", of(run), "leave",
     "leave, wait for or kill child processes",
     into<choice<straggler_policies>, plan, &SupervisionPlan::stragglers>},
    {"label", 0, "TEXT", "", of(run, acquire), "", "text shown by status",
     into<text<"label">, &ClaimOptions::description, &Description::label>},
    {"notify", 0, "WHO", "", of(run), "off",
     "who notifies systemd: dlock, command or off",
     into<choice<notify_modes>, &RunOptions::notify>},
    {"output", 0, "WHERE", "", of(run), "pass", "pass, on-failure: keep it, or a FILE",
     into<output_choice, &RunOptions::output>},
    {"keep-output", 0, "SIZE", "", of(run), "1MiB", "how much of it to keep (%)",
     into<kept_size, &RunOptions::keep_output>},
    {"report", 0, "FILE", "", of(run), "", "write the outcome to FILE as JSON",
     into<parsed_path, &RunOptions::report>},
    {"on-start", 0, "CMD", "", of(run), "", "shell command to run beside the command",
     into<parsed_shell_line, &RunOptions::on_start>},
    {"on-success", 0, "CMD", "", of(run), "", "shell command to run after success",
     into<parsed_shell_line, hooks, &HookLines::on_success>},
    {"on-failure", 0, "CMD", "", of(run), "", "shell command to run after failure",
     into<parsed_shell_line, hooks, &HookLines::on_failure>},
    {"on-busy", 0, "CMD", "", of(run), "", "shell command to run if not acquired",
     into<parsed_shell_line, hooks, &HookLines::on_busy>},
    {"for-pid", 0, "PID", "", of(acquire), "", "renew the lease while PID lives",
     into<number<1, INT32_MAX, pid_t>, &AcquireOptions::for_pid>},
    {"export", 0, "", "", of(acquire), "", "print variables for eval, not only the token",
     flag<&AcquireOptions::exports>},
    {"token", 0, "T", "DLOCK_TOKEN", of(renew, release), "", "token that acquire printed",
     into<parsed_token, &LeaseOptions::token>},
    {"token-file", 0, "FILE", "", of(renew, release), "", "read the token from FILE",
     into<verbatim, &LeaseOptions::token_file>},
    {"ttl", 't', "D", "", of(renew), "", "lease length from now (as acquired)",
     into<parsed_lease_length, &LeaseOptions::ttl>},
    {"fence", 0, "N", "DLOCK_FENCE", of(check), "", "fencing token to check",
     into<parsed_fence, &CheckOptions::fence>},
    {"min-validity", 0, "D", "", of(check), "0", "must stay valid for at least D (%)",
     into<parsed_duration, &CheckOptions::min_validity>},
    {"held", 0, "", "", of(list), "", "only locks that are held",
     flag<&ListOptions::held>},
    {"host", 0, "H", "", of(list, history), "", "only those on the host H",
     into<text<"host">, &PartyOptions::host>},
    {"owner", 0, "U", "", of(list, history), "", "only those of the user U",
     into<text<"user">, &PartyOptions::owner>},
    {"mine", 0, "", "", of(list, history), "", "only those of this user on this host",
     flag<&PartyOptions::mine>},
    {"label", 0, "GLOB", "", of(list, history), "", "only those with a label like GLOB",
     into<text<"label">, &PartyOptions::label>},
    {"sort", 0, "ORDER", "", of(list), "name", "% (default), or age: longest held first",
     into<choice<orders>, &ListOptions::order>},
    {"live", 0, "", "", of(list), "", "keep the list up to date until interrupted",
     flag<&ListOptions::live>},
    {"prometheus", 0, "", "", of(list), "", "print metrics for Prometheus",
     flag<&ListOptions::prometheus>},
    {"limit", 0, "N", "", of(history), "20", "at most the last N runs (%)",
     into<number<1, most_runs>, &HistoryOptions::limit>},
    {"failed", 0, "", "", of(history), "", "only runs that did not succeed",
     flag<&HistoryOptions::failed>},
    {"since", 0, "D", "", of(history), "", "only runs that started less than D ago",
     into<some<parsed_duration>, &HistoryOptions::since>},
    {"succeeded-within", 0, "D", "", of(history), "", "check for a success in the last D",
     into<parsed_time_limit, &HistoryOptions::succeeded_within>},
    {"nagios", 0, "", "", of(history), "", "answer as a monitoring plugin: 0, 2 or 3",
     flag<&HistoryOptions::nagios>},
    {"fence", 0, "N", "", of(break_lock), "", "only the holder with this fencing token",
     into<parsed_fence, &BreakOptions::fence>},
    {"host", 0, "H", "", of(break_lock), "", "only holders on the host H: of all locks",
     into<text<"host">, &BreakOptions::host>},
    {"force", 0, "", "", of(break_lock), "", "free the lock at once: for dead machines",
     flag<&BreakOptions::force>},
    {"yes", 0, "", "", of(break_lock), "", "do not ask for confirmation",
     flag<&BreakOptions::yes>},
    {"wait", 'w', "D", "", of(limit), "0", "wait up to D for a turn, or forever",
     into<some<parsed_patience>, &LimitOptions::wait>},
    {"show", 0, "", "", of(limit), "", "show the rate, what is left and the waiters",
     flag<&LimitOptions::show>},
    {"reset", 0, "", "", of(limit), "", "forget the limit, so that any rate can be set",
     flag<&LimitOptions::reset>},
    {"ttl", 0, "D", "", of(cache), "5m", "how long the output stays fresh (%)",
     into<parsed_time_limit, &CacheOptions::lifetime, &Lifetime::ttl>},
    {"stale", 0, "D", "", of(cache), "0", "serve it D longer while one call refreshes it",
     into<parsed_duration, &CacheOptions::lifetime, &Lifetime::stale>},
    {"max-size", 0, "SIZE", "", of(cache), "16MiB", "do not store larger output (%)",
     into<parsed_size, &CacheOptions::max_size>},
    {"wait", 'w', "D", "", of(cache), "forever", "wait up to D for another call (%)",
     into<parsed_patience, &CacheOptions::wait>},
    {"conflict-exit-code", 'E', "N", "", of(cache), "75",
     "exit code if that takes longer (%)",
     into<number<0, 255, int>, &CacheOptions::conflict_exit_code>},
    {"forget", 0, "", "", of(cache), "", "remove the stored output, run nothing",
     flag<&CacheOptions::forget>},
    {"show", 0, "", "", of(cache), "", "describe the stored output, run nothing",
     flag<&CacheOptions::show>},
    {"schema", 0, "", "", of(doctor), "", "print the SQL that makes the tables",
     flag<&DoctorOptions::schema>},
};

constexpr Exclusion common_pairs[] = {
    {"quiet", "verbose", Exclusion::Rule::ranked_or_both},
    {"password-file", "password-command"}};
constexpr Exclusion own_pairs[] = {
    {"shared", "slots", Exclusion::Rule::ranked, true},
    // Concurrent runs are meant to be several, so they cannot be deduplicated.
    {"dedupe", "shared"},
    {"dedupe", "slots"},
    // A waiter could not give way: it may hold the lock that the newer run waits for.
    {"supersede", "also", Exclusion::Rule::ranked, false,
     ": put the run with --also into one with --supersede and its own lock: "
     "dlock run --supersede --wait D QUEUE -- dlock run --also LOCK ..."},
    {"mine", "host"},
    {"mine", "owner"},
    {"export", "json"},
    {"schema", "json"},
    {"token", "token-file"},
    {"forget", "show", Exclusion::Rule::refused},
    {"show", "reset", Exclusion::Rule::refused},
    {"json", "prometheus"},
    {"json", "nagios"},
    {"json", "live"},
    {"prometheus", "live"},
};

template <typename Wanted>
const OptionSpec* found(std::span<const OptionSpec> rows, VerbSet verbs, Wanted wanted) {
  const auto at = std::ranges::find_if(rows, [&](const OptionSpec& option) {
    return (option.verbs & verbs) != 0 && wanted(option);
  });
  return at == rows.end() ? nullptr : &*at;
}

auto is_called(std::string_view name) {
  return [name](const OptionSpec& option) { return option.name == name; };
}

void take(const OptionSpec& option, const Settings& settings, VerbOptions& options) {
  if (settings.count(option.name) > 0) {
    with_setting(settings, option.name,
                 [&](const Setting& setting) { option.take(options, setting); });
  } else if (!option.usual.empty()) {
    option.take(options, {std::string(option.usual), Setting::Source::file, ""});
  }
}

}  // namespace
}  // namespace option_rows

std::span<const OptionSpec> common_specs() { return option_rows::common_rows; }

std::span<const OptionSpec> own_specs() { return option_rows::own_rows; }

const OptionSpec* common_option(std::string_view name) {
  using namespace option_rows;
  return found(common_rows, every_verb, is_called(name));
}

const OptionSpec* own_option(Verb verb, std::string_view name) {
  using namespace option_rows;
  return found(own_rows, of(verb), is_called(name));
}

const OptionSpec* any_option(std::string_view name) {
  using namespace option_rows;
  const auto* common = common_option(name);
  return common != nullptr ? common : found(own_rows, every_verb, is_called(name));
}

const OptionSpec* option_named(Verb verb, std::string_view name) {
  const auto is_named = [&](const OptionSpec& option) {
    return name.size() == 1 ? option.letter == name.front() : option.name == name;
  };
  const auto* own = option_rows::found(option_rows::own_rows, of(verb), is_named);
  return own != nullptr ? own : option_rows::found(common_specs(), of(verb), is_named);
}

std::span<const Exclusion> common_exclusions() { return option_rows::common_pairs; }
std::span<const Exclusion> own_exclusions() { return option_rows::own_pairs; }

void take_own(Verb verb, const Settings& settings, VerbOptions& options) {
  for (const auto& option : own_specs(verb)) option_rows::take(option, settings, options);
}

void take_common(const Settings& settings, VerbOptions& options) {
  for (const auto& option : common_specs()) option_rows::take(option, settings, options);
}

}  // namespace dlock
