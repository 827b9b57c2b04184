#include "store/redis/health.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "store/redis/health_settings.hpp"
#include "store/round_trips.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

using std::chrono::microseconds;
using Level = Finding::Level;

// A difference that does not matter in printed times.
constexpr microseconds close_enough = std::chrono::seconds(2);

Finding finding_of(const Failure& failure, bool was_reached) {
  switch (failure.kind()) {
    case Failure::Kind::rejected:
      return {"login", Level::error, failure.what(),
              "check the user, the password (--user, --password-file, DLOCK_PASSWORD) "
              "and, over TLS, the certificates (--tls-ca, --tls-cert, --tls-key)"};
    case Failure::Kind::misconfigured:
      return {"login", Level::error, failure.what(),
              "correct the store URL, or the login and TLS options"};
    case Failure::Kind::unreachable:
    case Failure::Kind::unsupported:
    case Failure::Kind::exhausted:
    case Failure::Kind::interrupted: break;
  }
  return {
      "reachable", Level::error, failure.what(),
      was_reached
          ? "the server replied at first: check what keeps it busy (SLOWLOG GET, its log)"
          : "check that the server runs, that the URL has the right host and port or "
            "socket, and that the server accepts connections from this machine (bind, "
            "protected-mode, firewall)"};
}

struct Version {
  std::string name;
  std::string text;
  bool is_too_old = false;
};

bool is_before(const std::string& version, int major, int minor) {
  int numbers[2] = {0, 0};
  const char* at = version.data();
  const char* end = version.data() + version.size();
  for (auto& number : numbers) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    at = next < end && *next == '.' ? next + 1 : next;
  }
  return numbers[0] != major ? numbers[0] < major : numbers[1] < minor;
}

std::optional<Version> version_of(const Facts& facts) {
  if (const auto valkey = field(facts.info, "valkey_version"); !valkey.empty()) {
    return Version{"Valkey", valkey, is_before(valkey, 7, 2)};
  }
  auto text = field(facts.info, "redis_version");
  if (text.empty()) text = field(facts.hello, "version");
  if (text.empty()) return std::nullopt;
  const bool is_valkey = field(facts.hello, "server") == "valkey";
  return Version{is_valkey ? "Valkey" : "Redis", text,
                 is_valkey ? is_before(text, 7, 2) : is_before(text, 6, 2)};
}

Finding version(const Facts& facts) {
  const auto found = version_of(facts);
  if (!found) return not_checked("version", facts);
  const auto shown = found->name + " " + printable(found->text, 40);
  if (!found->is_too_old) return {"version", Level::ok, shown, ""};
  return {"version", Level::error, shown + " is too old",
          "upgrade: dlock needs Redis 6.2 or later, or Valkey 7.2 or later"};
}

bool refuses_with(const Facts& facts, std::string_view code) {
  return facts.refuses_work && facts.refuses_work->starts_with(code);
}

Finding role(const Facts& facts) {
  auto role = field(facts.info, "role");
  if (role.empty()) role = field(facts.hello, "role");
  if (role.empty() && refuses_with(facts, "READONLY")) role = "replica";
  if (role.empty()) return not_checked("role", facts);
  if (role == "master") return {"role", Level::ok, "a primary", ""};
  const auto primary = field(facts.info, "master_host");
  return {"role", Level::error,
          "a replica" +
              (primary.empty() ? ""
                               : " of " + printable(primary, 200) + ":" +
                                     printable(field(facts.info, "master_port"), 8)) +
              "; replicas grant no locks",
          "name the primary in the store URL"};
}

bool is_sentinel(const Facts& facts) {
  return field(facts.hello, "mode") == "sentinel" ||
         field(facts.info, "redis_mode") == "sentinel";
}

Finding cluster(const Facts& facts) {
  const auto enabled = field(facts.info, "cluster_enabled");
  const auto mode = field(facts.hello, "mode");
  if (enabled.empty() && mode.empty()) return not_checked("cluster", facts);
  if (facts.is_in_cluster) return {"cluster", Level::ok, "cluster member", ""};
  if (enabled != "1" && mode != "cluster") return {"cluster", Level::ok, "none", ""};
  return {"cluster", Level::error, "the server is a member of a cluster",
          "use a redis+cluster:// store URL"};
}

std::vector<std::string> rules_for(const std::vector<std::string>& commands) {
  std::vector<std::string> rules;
  for (const auto& command : commands) rules.push_back('+' + command);
  return rules;
}

std::optional<Finding> commands(const Facts& facts) {
  const bool is_for_watch = facts.unknown_commands.empty();
  const auto& unknown = is_for_watch ? facts.unknown_for_watch : facts.unknown_commands;
  if (unknown.empty()) return std::nullopt;
  return Finding{"commands", is_for_watch ? Level::warning : Level::error,
                 (is_for_watch ? "dlock watch misses events: " : "") +
                     ("the server does not know " + listed(unknown)) +
                     " (renamed or disabled, or not forwarded by a proxy)",
                 "remove the server's rename-command for it, or use a server that has "
                 "this command, without a proxy"};
}

Finding permissions(const Facts& facts) {
  const auto user = "user " + facts.user;
  if (facts.missing_commands.empty() && !facts.keys_are_missing) {
    return {"permissions", Level::ok, user + " has all permissions that locks need", ""};
  }
  std::string message = user + " may not";
  auto rules = rules_for(facts.missing_commands);
  if (!rules.empty()) message += " call " + listed(facts.missing_commands);
  if (facts.keys_are_missing) {
    message += facts.missing_commands.empty() ? " access" : ", and may not access";
    message += " all keys " + facts.key_prefix + "*";
    rules.push_back('~' + facts.key_prefix + '*');
  }
  return {"permissions", Level::error, message, granting(facts.user, rules)};
}

std::optional<Finding> watching(const Facts& facts) {
  if (facts.missing_for_watch.empty()) return std::nullopt;
  const auto channels = facts.key_prefix + "*";
  auto rules = rules_for(facts.missing_for_watch);
  rules.push_back('&' + channels);
  return Finding{"watch", Level::warning,
                 "dlock watch misses events: user " + facts.user + " may not call " +
                     listed(facts.missing_for_watch) + ", or not on the channels " +
                     channels,
                 granting(facts.user, rules)};
}

// Nothing where the role is the cause.
std::optional<Finding> work(const Facts& facts) {
  if (!facts.refuses_work || refuses_with(facts, "READONLY") ||
      refuses_with(facts, "MASTERDOWN") || refuses_with(facts, "MOVED") ||
      refuses_with(facts, "CLUSTERDOWN")) {
    return std::nullopt;
  }
  std::string advice = "check the server's log";
  if (refuses_with(facts, "OOM")) {
    advice = "raise maxmemory, or remove data";
  } else if (refuses_with(facts, "NOREPLICAS")) {
    advice = "restore its replicas, or lower min-replicas-to-write";
  } else if (refuses_with(facts, "MISCONF")) {
    advice =
        "check the server's log for why it cannot save, and whether its disk is full";
  } else if (refuses_with(facts, "LOADING")) {
    advice = "wait until it has loaded its data";
  } else if (refuses_with(facts, "BUSY")) {
    advice = "stop the script that keeps it busy (SCRIPT KILL)";
  }
  return Finding{"work", Level::error,
                 "the server grants no locks now: " + printable(*facts.refuses_work, 200),
                 advice};
}

std::optional<Finding> scripts(const Facts& facts) {
  if (!facts.refuses_undeclared) return std::nullopt;
  return Finding{
      "scripts", Level::error,
      "the server refuses keys that a script does not declare, such as the queue of a "
      "lock: " +
          printable(*facts.refuses_undeclared, 200),
      "use a server that allows them: Redis or Valkey on dedicated nodes, not a "
      "serverless service"};
}

Finding clock(const Facts& facts) {
  if (!facts.clock_ahead) {
    return {"clock", Level::info, "not checked: the server does not report its time", "",
            false};
  }
  const auto off = *facts.clock_ahead;
  const auto distance = off.count() < 0 ? -off : off;
  if (distance < close_enough)
    return {"clock", Level::ok, "agrees with this machine's", ""};
  return {"clock", Level::info,
          for_people(distance) + (off.count() < 0 ? " behind" : " ahead of") +
              " this machine's",
          "harmless: locks use the server's clock only; the times in status and history "
          "are the server's"};
}

// The next grants would go on from such a fence; see greatest_plausible_fence().
std::optional<Finding> fences(const Facts& facts) {
  if (facts.far_fences.empty()) return std::nullopt;
  constexpr std::size_t most_shown = 3;
  std::string message;
  for (std::size_t i = 0; i < std::min(most_shown, facts.far_fences.size()); ++i) {
    const auto& [key, fence] = facts.far_fences[i];
    message +=
        (i > 0 ? ", " : "") + printable(key, 300) + " has fence " + printable(fence, 40);
  }
  if (facts.far_fences.size() > most_shown) {
    message += ", " + std::to_string(facts.far_fences.size() - most_shown) + " more";
  }
  return Finding{"fences", Level::warning,
                 message + ": implausibly far ahead of the clock",
                 "see 'A fence far ahead of the clock' in docs/operating.md"};
}

}  // namespace

std::vector<Finding> findings_of(const Facts& facts) {
  std::vector<Finding> findings;
  if (facts.failure) {
    findings.push_back(finding_of(*facts.failure, facts.was_reached));
    return findings;
  }
  findings.push_back({"reachable", Level::ok, facts.server, ""});
  if (facts.no_login) {
    findings.push_back({"login", Level::error,
                        "the server requires a login: " + printable(*facts.no_login, 200),
                        "set a password (--password-file or DLOCK_PASSWORD), and a user "
                        "(--user) unless it is the default user"});
    return findings;
  }
  findings.push_back({"login", Level::ok, "user " + facts.user, ""});
  if (is_sentinel(facts)) {
    findings.push_back(
        {"role", Level::error, "a sentinel, which has no locks",
         "use redis+sentinel://" + facts.server +
             "/MASTER with the name of the primary in `sentinel monitor`"});
    return findings;
  }
  for (const auto check : {version, role, cluster, permissions})
    findings.push_back(check(facts));
  if (auto found = commands(facts)) findings.push_back(std::move(*found));
  if (auto found = watching(facts)) findings.push_back(std::move(*found));
  if (auto found = work(facts)) findings.push_back(std::move(*found));
  if (auto found = scripts(facts)) findings.push_back(std::move(*found));
  for (const auto check : {persistence, eviction, replicas, clients}) {
    findings.push_back(check(facts));
  }
  if (auto found = tls_connections(facts)) findings.push_back(std::move(*found));
  findings.push_back(clock(facts));
  if (auto found = fences(facts)) findings.push_back(std::move(*found));
  if (auto found = round_trip_finding(facts.round_trips, facts.trips_to_renew))
    findings.push_back(std::move(*found));
  return findings;
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

void add_worst(std::vector<Finding>& findings, Finding found, const std::string& server) {
  const auto same =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& other) { return other.check == found.check; });
  if (found.level > Level::info) found.message = server + ": " + found.message;
  if (same == findings.end()) {
    findings.push_back(std::move(found));
  } else if (found.level > same->level) {
    *same = std::move(found);
  }
}

std::optional<microseconds> clock_spread(std::span<const Facts> servers) {
  std::optional<microseconds> first;
  std::optional<microseconds> last;
  for (const auto& one : servers) {
    if (!one.clock_ahead) continue;
    first = std::min(first.value_or(*one.clock_ahead), *one.clock_ahead);
    last = std::max(last.value_or(*one.clock_ahead), *one.clock_ahead);
  }
  if (!first) return std::nullopt;
  return *last - *first;
}

Examination examination_of(std::vector<Finding> findings,
                           std::span<const Facts> servers) {
  Examination examination;
  examination.findings = std::move(findings);
  auto& slowest = examination.round_trip;
  for (const auto& one : servers) {
    const auto median = median_of(one.round_trips);
    if (median) slowest = std::max(slowest.value_or(*median), *median);
  }
  if (slowest) {
    examination.smallest_ttl =
        smallest_ttl_for(needed_budget(*slowest, servers.front().trips_to_renew));
  }
  return examination;
}

}  // namespace dlock::redis
