#include "cli/args/verb_spec.hpp"

#include <algorithm>
#include <iterator>

namespace dlock {
namespace {

constexpr OptionSpec options_of_all[] = {
    {"store", 0, "URL", "DLOCK_STORE", "local:, local:/dir, redis://host, ..., none:"},
    {"namespace", 0, "NS", "DLOCK_NAMESPACE", "prefix of every name (default dlock)"},
    {"config", 0, "FILE", "DLOCK_CONFIG", "TOML configuration file"},
    {"store-timeout", 0, "D", "DLOCK_STORE_TIMEOUT",
     "time limit of a store operation (2s)"},
    {"user", 0, "NAME", "DLOCK_USER", "log in to the store as NAME"},
    {"password-file", 0, "FILE", "DLOCK_PASSWORD_FILE", "read the password from FILE"},
    {"replicas", 0, "N", "DLOCK_REPLICAS", "replicas that must confirm a lease, or all"},
    {"sentinel-user", 0, "NAME", "DLOCK_SENTINEL_USER", "log in to sentinels as NAME"},
    {"sentinel-password-file", 0, "FILE", "DLOCK_SENTINEL_PASSWORD_FILE",
     "read the sentinel password from FILE"},
    {"sentinel-tls", 0, "WHAT", "DLOCK_SENTINEL_TLS",
     "use TLS for sentinels: true or false"},
    {"min-strength", 0, "N", "DLOCK_MIN_STRENGTH",
     "minimum strength of a lease to start"},
    {"max-ttl", 0, "D", "DLOCK_MAX_TTL", "servers up for less do not vote (1m)"},
    {"address-map", 0, "FROM=TO", "DLOCK_ADDRESS_MAP",
     "use TO for FROM, which servers announce"},
    {"tls-ca", 0, "FILE", "DLOCK_TLS_CA", "CA certificates, in place of the system's"},
    {"tls-cert", 0, "FILE", "DLOCK_TLS_CERT", "client certificate"},
    {"tls-key", 0, "FILE", "DLOCK_TLS_KEY", "key of the client certificate"},
    {"tls-key-password-file", 0, "FILE", "DLOCK_TLS_KEY_PASSWORD_FILE",
     "read the pass phrase of the key from FILE"},
    {"tls-name", 0, "NAME", "DLOCK_TLS_NAME", "name that the certificate must have"},
    {"tls-insecure", 0, "", "DLOCK_TLS_INSECURE", "accept any certificate"},
    {"json", 0, "", "", "print one JSON document"},
    {"quiet", 'q', "", "", "print errors only"},
    {"verbose", 'v', "", "", "print each step"},
    {"color", 0, "WHEN", "", "auto, always or never"},
};

constexpr OptionSpec run_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s); ignored by local:"},
    {"slots", 'n', "N", "", "holders allowed at a time (1)"},
    {"shared", 's', "", "", "share the lock with other shared holders"},
    {"conflict-exit-code", 'E', "N", "", "exit code if not obtained (75)"},
    {"dedupe", 0, "WINDOW", "", "skip if running, or started within WINDOW"},
    {"retry-failed", 0, "", "", "with --dedupe: failed runs do not count"},
    {"replace", 0, "", "", "take the lock from its holder"},
    {"supersede", 0, "", "", "give way to a newer run with --supersede"},
    {"max-queue", 0, "N", "", "do not wait if N are already waiting"},
    {"min-hold", 0, "D", "", "hold the lock for at least D"},
    {"timeout", 0, "D", "", "end the command after D, exit 124"},
    {"kill-after", 'k', "D", "", "time from SIGTERM to SIGKILL (5s)"},
    {"jitter", 0, "D", "", "first sleep for a random time of up to D"},
    {"on-outage", 0, "WHAT", "", "if the store is down: stop (default) or run"},
    {"reclaim", 0, "", "", "restore a lease that the store has forgotten"},
    {"lock-delay", 0, "D", "", "the store keeps the lease D longer"},
    {"stragglers", 0, "WHAT", "", "leave, wait for or kill leftover processes"},
    {"label", 0, "TEXT", "", "text shown by status"},
    {"report", 0, "FILE", "", "write the outcome to FILE as JSON"},
    {"on-success", 0, "CMD", "", "shell command to run after success"},
    {"on-failure", 0, "CMD", "", "shell command to run after failure"},
    {"on-busy", 0, "CMD", "", "shell command to run if not obtained"},
};

constexpr OptionSpec acquire_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s)"},
    {"slots", 'n', "N", "", "holders allowed at a time (1)"},
    {"shared", 's', "", "", "share the lock with other shared holders"},
    {"label", 0, "TEXT", "", "text shown by status"},
    {"for-pid", 0, "PID", "", "renew the lease while PID lives"},
    {"export", 0, "", "", "print variables for eval, not only the token"},
};

constexpr OptionSpec renew_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "token that acquire printed"},
    {"token-file", 0, "FILE", "", "read the token from FILE"},
    {"ttl", 't', "D", "", "lease length from now (as acquired)"},
};

constexpr OptionSpec release_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "token that acquire printed"},
    {"token-file", 0, "FILE", "", "read the token from FILE"},
};

constexpr OptionSpec check_specs[] = {
    {"fence", 0, "N", "DLOCK_FENCE", "fence of the grant to check"},
    {"min-validity", 0, "D", "", "must stay valid for at least D (0)"},
};

constexpr OptionSpec break_specs[] = {
    {"fence", 0, "N", "", "only the holder with this fence"},
    {"force", 0, "", "", "free the lock at once: for dead machines"},
    {"yes", 0, "", "", "do not ask for confirmation"},
};

constexpr OptionSpec cache_specs[] = {
    {"ttl", 0, "D", "", "how long the output stays fresh (5m)"},
    {"stale", 0, "D", "", "serve it D longer while one call refreshes it"},
    {"max-size", 0, "SIZE", "", "do not store larger output (16MiB)"},
    {"wait", 'w', "D", "", "wait up to D for another call (forever)"},
    {"conflict-exit-code", 'E', "N", "", "exit code if that takes longer (75)"},
    {"forget", 0, "", "", "remove the stored output, run nothing"},
    {"show", 0, "", "", "describe the stored output, run nothing"},
};

constexpr OptionSpec limit_specs[] = {
    {"wait", 'w', "D", "", "wait up to D for a turn, or forever"},
    {"show", 0, "", "", "show the rate, what is left and the waiters"},
    {"reset", 0, "", "", "forget the limit, so that any rate can be set"},
};

constexpr OptionSpec list_specs[] = {
    {"held", 0, "", "", "only locks that are held"},
    {"sort", 0, "ORDER", "", "name (default), or age: longest held first"},
    {"live", 0, "", "", "keep the list up to date until interrupted"},
    {"prometheus", 0, "", "", "print metrics for Prometheus"},
};

constexpr OptionSpec history_specs[] = {
    {"limit", 0, "N", "", "at most the last N runs (20)"},
    {"failed", 0, "", "", "only runs that did not succeed"},
    {"since", 0, "D", "", "only runs that started less than D ago"},
    {"succeeded-within", 0, "D", "", "check for a success in the last D"},
};

constexpr std::size_t most_names = 10'000;  // accepted by `watch`

constexpr VerbSpec verbs[] = {
    {Verb::run, VerbGroup::run, "run", "run [OPTIONS] NAME [--] COMMAND [ARG...]",
     "hold a lock while a command runs", 1, 1, std::begin(run_specs),
     std::end(run_specs)},
    {Verb::acquire, VerbGroup::by_hand, "acquire", "acquire [OPTIONS] NAME",
     "take a lock and print its token", 1, 1, std::begin(acquire_specs),
     std::end(acquire_specs)},
    {Verb::renew, VerbGroup::by_hand, "renew", "renew [OPTIONS] NAME",
     "extend the lease of an acquired lock", 1, 1, std::begin(renew_specs),
     std::end(renew_specs)},
    {Verb::release, VerbGroup::by_hand, "release", "release [OPTIONS] NAME",
     "release an acquired lock", 1, 1, std::begin(release_specs),
     std::end(release_specs)},
    {Verb::check, VerbGroup::by_hand, "check", "check [OPTIONS] [NAME]",
     "check whether a grant still holds its lock", 0, 1, std::begin(check_specs),
     std::end(check_specs)},
    {Verb::fence, VerbGroup::by_hand, "fence", "fence [OPTIONS] RESOURCE N",
     "admit a fence unless a greater one was admitted", 2, 2, nullptr, nullptr},
    {Verb::status, VerbGroup::look, "status", "status [OPTIONS] NAME",
     "show the holders, waiters and last run of a lock", 1, 1, nullptr, nullptr},
    {Verb::list, VerbGroup::look, "list", "list [OPTIONS] [PATTERN]",
     "list the locks in use, and those used before", 0, 1, std::begin(list_specs),
     std::end(list_specs)},
    {Verb::watch, VerbGroup::look, "watch", "watch [OPTIONS] [NAME...]",
     "print lock events as they happen", 0, most_names, nullptr, nullptr},
    {Verb::history, VerbGroup::look, "history", "history [OPTIONS] [PATTERN]",
     "show the last runs of a lock, or of all locks", 0, 1, std::begin(history_specs),
     std::end(history_specs)},
    {Verb::break_lock, VerbGroup::operate, "break", "break [OPTIONS] NAME",
     "take a lock from its holders and end their commands", 1, 1, std::begin(break_specs),
     std::end(break_specs)},
    {Verb::doctor, VerbGroup::operate, "doctor", "doctor [OPTIONS]",
     "check the store and recommend fixes", 0, 0, nullptr, nullptr},
    {Verb::config, VerbGroup::operate, "config", "config [OPTIONS] [NAME]",
     "show every setting and where it comes from", 0, 1, nullptr, nullptr},
    {Verb::help, VerbGroup::operate, "help", "help [VERB]",
     "show this help, or that of a verb", 0, 1, nullptr, nullptr},
    {Verb::limit, VerbGroup::rate_and_cache, "limit",
     "limit [OPTIONS] NAME [N/PERIOD [--] [COMMAND [ARG...]]]",
     "admit at most N in any PERIOD", 1, 2, std::begin(limit_specs),
     std::end(limit_specs)},
    {Verb::cache, VerbGroup::rate_and_cache, "cache",
     "cache [OPTIONS] KEY [--] [COMMAND [ARG...]]",
     "print a command's output, running it only if needed", 1, 1, std::begin(cache_specs),
     std::end(cache_specs)},
};

}  // namespace

std::span<const VerbSpec> all_verbs() { return verbs; }
std::span<const OptionSpec> common_specs() { return options_of_all; }

const VerbSpec* verb_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(verbs), std::end(verbs),
                                   [&](const VerbSpec& v) { return v.name == name; });
  return found == std::end(verbs) ? nullptr : found;
}

const OptionSpec* option_named(const VerbSpec& verb, std::string_view name) {
  const auto is_named = [&](const OptionSpec& spec) {
    return name.size() == 1 ? spec.letter == name.front() : spec.name == name;
  };
  const auto* own = std::find_if(verb.first, verb.last, is_named);
  if (own != verb.last) return own;
  const auto* common =
      std::find_if(std::begin(options_of_all), std::end(options_of_all), is_named);
  return common == std::end(options_of_all) ? nullptr : common;
}

const OptionSpec* option_in(std::span<const OptionSpec> specs, std::string_view name) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const auto& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

std::vector<std::string_view> names_of(std::span<const OptionSpec> specs) {
  std::vector<std::string_view> names;
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

std::vector<std::string_view> verb_names() {
  std::vector<std::string_view> names;
  for (const auto& verb : verbs) names.push_back(verb.name);
  return names;
}

}  // namespace dlock
