#include "cli/verb_spec.hpp"

#include <algorithm>
#include <iterator>

namespace dlock {
namespace {

constexpr OptionSpec options_of_all[] = {
    {"store", 0, "URL", "DLOCK_STORE", "local:, local:/dir, redis://host, ..., none:"},
    {"namespace", 0, "NS", "DLOCK_NAMESPACE", "prefix of every name (default dlock)"},
    {"config", 0, "FILE", "DLOCK_CONFIG", "TOML file of settings"},
    {"store-timeout", 0, "D", "DLOCK_STORE_TIMEOUT", "budget of one operation (2s)"},
    {"user", 0, "NAME", "DLOCK_USER", "log in to the store as NAME"},
    {"password-file", 0, "FILE", "DLOCK_PASSWORD_FILE", "log in with the password in it"},
    {"replicas", 0, "N", "DLOCK_REPLICAS", "how many, or all, must acknowledge a lease"},
    {"sentinel-user", 0, "NAME", "DLOCK_SENTINEL_USER", "log in to sentinels as NAME"},
    {"sentinel-password-file", 0, "FILE", "DLOCK_SENTINEL_PASSWORD_FILE",
     "with the password in it"},
    {"sentinel-tls", 0, "WHAT", "DLOCK_SENTINEL_TLS", "false: none to sentinels"},
    {"min-strength", 0, "N", "DLOCK_MIN_STRENGTH", "so many servers may forget a lease"},
    {"max-ttl", 0, "D", "DLOCK_MAX_TTL", "a server up for less has no vote (1m)"},
    {"tls-ca", 0, "FILE", "DLOCK_TLS_CA", "trust these, not the system's"},
    {"tls-cert", 0, "FILE", "DLOCK_TLS_CERT", "our certificate"},
    {"tls-key", 0, "FILE", "DLOCK_TLS_KEY", "its key"},
    {"tls-name", 0, "NAME", "DLOCK_TLS_NAME", "whom the certificate must name"},
    {"tls-insecure", 0, "", "DLOCK_TLS_INSECURE", "accept any certificate"},
    {"json", 0, "", "", "print one JSON document"},
    {"quiet", 'q', "", "", "errors only"},
    {"verbose", 'v', "", "", "one line for each step"},
    {"color", 0, "WHEN", "", "auto, always or never"},
};

constexpr OptionSpec run_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s); local: needs none"},
    {"slots", 'n', "N", "", "how many may hold it at a time (1)"},
    {"shared", 's', "", "", "share it with other shared holders"},
    {"conflict-exit-code", 'E', "N", "", "exit code if not obtained (75)"},
    {"dedupe", 0, "WINDOW", "", "skip it if it ran less than that ago"},
    {"retry-failed", 0, "", "", "but not if that run failed"},
    {"replace", 0, "", "", "take the lock from its holder"},
    {"supersede", 0, "", "", "of those who say so, the newest alone waits"},
    {"max-queue", 0, "N", "", "do not wait if N wait already"},
    {"min-hold", 0, "D", "", "keep the lock at least for D"},
    {"timeout", 0, "D", "", "end the command after D, exit 124"},
    {"kill-after", 'k', "D", "", "from SIGTERM to SIGKILL (5s)"},
    {"jitter", 0, "D", "", "first sleep a random time up to D"},
    {"on-outage", 0, "WHAT", "", "without the store: stop (default) or run"},
    {"reclaim", 0, "", "", "set up again a lease that the store forgot"},
    {"lock-delay", 0, "D", "", "the store keeps the lease longer by D"},
    {"stragglers", 0, "WHAT", "", "leave, wait for or kill what is left"},
    {"label", 0, "TEXT", "", "shown by status"},
    {"report", 0, "FILE", "", "write the outcome there as JSON"},
    {"on-success", 0, "CMD", "", "for sh, when all is over: it ended with 0"},
    {"on-failure", 0, "CMD", "", "it failed, or did not run to its end"},
    {"on-busy", 0, "CMD", "", "the lock was not obtained"},
};

constexpr OptionSpec acquire_specs[] = {
    {"wait", 'w', "D", "", "queue for up to D, or forever"},
    {"ttl", 't', "D", "", "lease length (30s)"},
    {"slots", 'n', "N", "", "how many may hold it at a time (1)"},
    {"shared", 's', "", "", "share it with other shared holders"},
    {"label", 0, "TEXT", "", "shown by status"},
    {"for-pid", 0, "PID", "", "keep it for as long as PID lives"},
    {"export", 0, "", "", "print variables for eval, not just the token"},
};

constexpr OptionSpec renew_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "what acquire has printed"},
    {"token-file", 0, "FILE", "", "the token is in it"},
    {"ttl", 't', "D", "", "from now on (30s)"},
};

constexpr OptionSpec release_specs[] = {
    {"token", 0, "T", "DLOCK_TOKEN", "what acquire has printed"},
    {"token-file", 0, "FILE", "", "the token is in it"},
};

constexpr OptionSpec check_specs[] = {
    {"fence", 0, "N", "DLOCK_FENCE", "of the grant in question"},
    {"min-validity", 0, "D", "", "it has to last that long (0)"},
};

constexpr OptionSpec break_specs[] = {
    {"fence", 0, "N", "", "only the holder with this fence"},
    {"yes", 0, "", "", "do not ask first"},
};

constexpr OptionSpec cache_specs[] = {
    {"ttl", 0, "D", "", "how long the output is good (5m)"},
    {"stale", 0, "D", "", "then serve it so long while one refreshes it"},
    {"max-size", 0, "SIZE", "", "what is larger is not stored (16MiB)"},
    {"wait", 'w', "D", "", "for one who computes; forever if not set"},
    {"conflict-exit-code", 'E', "N", "", "exit code if that takes longer (75)"},
    {"forget", 0, "", "", "drop what is stored, run nothing"},
    {"show", 0, "", "", "show what is stored, run nothing"},
};

constexpr OptionSpec limit_specs[] = {
    {"wait", 'w', "D", "", "wait up to D for a turn, or forever"},
    {"show", 0, "", "", "show the rate, what is left and who waits"},
    {"reset", 0, "", "", "forget it, so that any rate can be set"},
};

constexpr OptionSpec list_specs[] = {
    {"held", 0, "", "", "only those that somebody holds"},
    {"sort", 0, "ORDER", "", "name (default), or age: held the longest first"},
    {"live", 0, "", "", "show it until interrupted, up to date"},
    {"prometheus", 0, "", "", "print metrics for Prometheus"},
};

constexpr OptionSpec history_specs[] = {
    {"limit", 0, "N", "", "the last N at most (20)"},
    {"failed", 0, "", "", "only those that did not succeed"},
    {"since", 0, "D", "", "only those that started less than D ago"},
    {"succeeded-within", 0, "D", "", "ask whether one did so in the last D"},
};

constexpr std::size_t most_names = 10'000;  // that `watch` takes

constexpr VerbSpec verbs[] = {
    {Verb::run, VerbGroup::run, "run", "run [OPTIONS] NAME [--] COMMAND [ARG...]",
     "hold a lock while a command runs", 1, 1, std::begin(run_specs),
     std::end(run_specs)},
    {Verb::acquire, VerbGroup::by_hand, "acquire", "acquire [OPTIONS] NAME",
     "take a lock and print the token that it is held by", 1, 1,
     std::begin(acquire_specs), std::end(acquire_specs)},
    {Verb::renew, VerbGroup::by_hand, "renew", "renew [OPTIONS] NAME",
     "make a lock that was taken last longer", 1, 1, std::begin(renew_specs),
     std::end(renew_specs)},
    {Verb::release, VerbGroup::by_hand, "release", "release [OPTIONS] NAME",
     "give a lock back", 1, 1, std::begin(release_specs), std::end(release_specs)},
    {Verb::check, VerbGroup::by_hand, "check", "check [OPTIONS] [NAME]",
     "ask whether a lock is still held by this grant", 0, 1, std::begin(check_specs),
     std::end(check_specs)},
    {Verb::fence, VerbGroup::by_hand, "fence", "fence [OPTIONS] RESOURCE N",
     "admit a fence unless a greater one was admitted", 2, 2, nullptr, nullptr},
    {Verb::status, VerbGroup::look, "status", "status [OPTIONS] NAME",
     "show who holds a lock, who waits, the last run", 1, 1, nullptr, nullptr},
    {Verb::list, VerbGroup::look, "list", "list [OPTIONS] [PATTERN]",
     "show every lock that is held, awaited or has run", 0, 1, std::begin(list_specs),
     std::end(list_specs)},
    {Verb::watch, VerbGroup::look, "watch", "watch [OPTIONS] [NAME...]",
     "show what happens to locks, as it happens", 0, most_names, nullptr, nullptr},
    {Verb::history, VerbGroup::look, "history", "history [OPTIONS] [PATTERN]",
     "show the last runs of a lock, or of all", 0, 1, std::begin(history_specs),
     std::end(history_specs)},
    {Verb::break_lock, VerbGroup::operate, "break", "break [OPTIONS] NAME",
     "take a lock from its holders, whose commands end", 1, 1, std::begin(break_specs),
     std::end(break_specs)},
    {Verb::doctor, VerbGroup::operate, "doctor", "doctor [OPTIONS]",
     "examine the store, and say what to do", 0, 0, nullptr, nullptr},
    {Verb::config, VerbGroup::operate, "config", "config [OPTIONS] [NAME]",
     "show every setting, and where it comes from", 0, 1, nullptr, nullptr},
    {Verb::help, VerbGroup::operate, "help", "help [VERB]",
     "show this, or what a verb can do", 0, 1, nullptr, nullptr},
    {Verb::limit, VerbGroup::rate_and_cache, "limit",
     "limit [OPTIONS] NAME N/PERIOD [--] [COMMAND [ARG...]]",
     "admit N at most in any PERIOD", 1, 2, std::begin(limit_specs),
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
