#include <algorithm>
#include <charconv>
#include <utility>

#include "store/checks.hpp"
#include "store/redis/redis_facts.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// A holder has a second connection, on which it is notified when its lease is broken.
constexpr long long connections_of_holder = 2;

// A TLS handshake takes a server about a millisecond, during which it serves no other
// client. The shortest lease has 50 ms for a renewal (--store-timeout).
constexpr long long most_tls_handshakes = 50;

// 0 for anything that is not a number of a plausible size.
long long number_field(const Fields& fields, std::string_view name) {
  const std::string text = field(fields, name);
  std::string_view unread = text;
  constexpr long long greatest = 1'000'000'000'000;
  const auto number = take_number<long long>(unread).value_or(0);
  return number > greatest ? 0 : number;
}

using std::chrono::microseconds;
using Level = Finding::Level;

// "ACL SETUSER USER RULES", quoted so that it can be pasted into a shell behind
// redis-cli, or at its prompt.
std::string granting(const std::string& user, const std::vector<std::string>& rules) {
  std::vector<std::string> words{"ACL", "SETUSER", user};
  words.insert(words.end(), rules.begin(), rules.end());
  constexpr std::size_t longest = 2000;
  return printable_command(words, longest);
}

// The finding of a check whose value is missing, with the permission that it needs.
Finding not_reported(const char* check, const RedisFacts& facts) {
  const bool is_info = facts.info.empty();
  const auto said =
      (is_info ? facts.info_refused : facts.config_refused).value_or("no value returned");
  return not_checked(
      check,
      (is_info ? "INFO was refused: " : "CONFIG GET was refused: ") +
          printable(said, 200),
      "grant the permission: " + granting(facts.user, {"+info", "+config|get"}));
}

Finding persistence(const RedisFacts& facts) {
  const auto aof = field(facts.info, "aof_enabled");
  if (aof.empty()) return not_reported("persistence", facts);
  if (aof != "0") {
    if (field(facts.info, "aof_last_write_status") == "err") {
      return {"persistence", Level::warning,
              "the last write to the append-only file failed",
              "check the server's log, and whether its disk is full"};
    }
    return {"persistence", Level::ok, "append-only file", ""};
  }
  const auto save = facts.config.find("save");
  if (save == facts.config.end()) return not_reported("persistence", facts);
  if (!save->second.empty()) {
    return {"persistence", Level::info,
            "snapshots only: a restart loses the locks since the last snapshot",
            "set appendonly yes to keep them, or use --reclaim"};
  }
  return {"persistence", Level::warning, "none: a restart loses every lock",
          "CONFIG SET appendonly yes (and CONFIG REWRITE), or use --reclaim"};
}

Finding eviction(const RedisFacts& facts) {
  const auto policy = field(facts.info, "maxmemory_policy");
  if (policy.empty()) return not_reported("eviction", facts);
  if (policy == "noeviction") return {"eviction", Level::ok, policy, ""};
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (number_field(facts.info, "maxmemory") == 0) {
    return {"eviction", Level::info, shown + " evicts nothing while maxmemory is not set",
            "before you set maxmemory: CONFIG SET maxmemory-policy noeviction"};
  }
  return {"eviction", Level::warning, shown + " can evict held locks when memory is full",
          "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks"};
}

Finding replicas(const RedisFacts& facts) {
  const auto connected = field(facts.info, "connected_slaves");
  if (connected.empty()) return not_reported("replicas", facts);
  if (number_field(facts.info, "connected_slaves") == 0) {
    return {"replicas", Level::ok, "none", ""};
  }
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = facts.info.count("min_slaves_good_slaves") > 0;
  const auto number = printable(connected, 10);
  if (is_asked_for || number_field(facts.config, "min-replicas-to-write") > 0) {
    return {"replicas", Level::ok, number + "; writes require replicas", ""};
  }
  return {"replicas", Level::warning,
          number +
              ", but min-replicas-to-write is not set: an isolated primary keeps "
              "granting locks that its successor does not have",
          "CONFIG SET min-replicas-to-write 1"};
}

// How many of the permitted connections are in use.
Finding clients(const RedisFacts& facts) {
  const auto limit = std::max(number_field(facts.info, "maxclients"),
                              number_field(facts.config, "maxclients"));
  const auto used = number_field(facts.info, "connected_clients");
  if (limit <= 0 || used <= 0) return not_reported("clients", facts);
  const auto free = std::max(limit - used, 0LL);
  const auto shown =
      std::to_string(used) + " of " + std::to_string(limit) + " connections in use";
  const auto room = ", room for " + std::to_string(free) + " waiters or " +
                    std::to_string(free / connections_of_holder) + " holders";
  if (free < limit / 4) {
    return {"clients", Level::warning, shown + room + "; others cannot connect",
            "CONFIG SET maxclients " + std::to_string(4 * limit) +
                " (and raise the limit of open files, LimitNOFILE), or close idle "
                "connections (CONFIG SET timeout)"};
  }
  const auto refused = number_field(facts.info, "rejected_connections");
  if (refused > 0) {
    return {"clients", Level::info,
            shown + room + "; the server has refused " + std::to_string(refused) +
                " connections since its start",
            "raise maxclients, or let hosts start at different times (--jitter)"};
  }
  return {"clients", Level::ok, shown + room, ""};
}

// How many TLS connections the server accepts at once; nothing without TLS, or where the
// server has no such setting.
std::optional<Finding> tls_connections(const RedisFacts& facts) {
  const auto limit = number_field(facts.config, "max-new-tls-connections-per-cycle");
  if (!facts.uses_tls || limit <= 0) return std::nullopt;
  const auto shown = "max-new-tls-connections-per-cycle " + std::to_string(limit);
  if (limit <= most_tls_handshakes) return Finding{"tls", Level::ok, shown, ""};
  return Finding{"tls", Level::warning,
                 shown + ": many new connections at once delay renewals",
                 "CONFIG SET max-new-tls-connections-per-cycle 10"};
}

Finding finding_of(const Failure& failure, bool was_reached) {
  return refusal_finding(
      failure,
      "check the user, the password (--user, --password-file, DLOCK_PASSWORD) and, over "
      "TLS, the certificates (--tls-ca, --tls-cert, --tls-key)",
      was_reached
          ? "the server replied at first: check what keeps it busy (SLOWLOG GET, its log)"
          : "check that the server runs, that the URL has the right host and port or "
            "socket, and that the server accepts connections from this machine (bind, "
            "protected-mode, firewall)");
}

Finding version(const RedisFacts& facts) {
  const auto found = version_of(facts);
  if (!found) return not_reported("version", facts);
  const auto shown = found->name + " " + printable(found->text, 40);
  if (!found->is_too_old) return {"version", Level::ok, shown, ""};
  return {"version", Level::error, shown + " is too old",
          "upgrade: dlock needs Redis 6.2 or later, or Valkey 7.2 or later"};
}

bool refuses_with(const RedisFacts& facts, std::string_view code) {
  return facts.refuses_work && facts.refuses_work->starts_with(code);
}

Finding role(const RedisFacts& facts) {
  auto role = field(facts.info, "role");
  if (role.empty()) role = field(facts.hello, "role");
  if (role.empty() && refuses_with(facts, "READONLY")) role = "replica";
  if (role.empty()) return not_reported("role", facts);
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

bool is_sentinel(const RedisFacts& facts) {
  return field(facts.hello, "mode") == "sentinel" ||
         field(facts.info, "redis_mode") == "sentinel";
}

Finding cluster(const RedisFacts& facts) {
  const auto enabled = field(facts.info, "cluster_enabled");
  const auto mode = field(facts.hello, "mode");
  if (enabled.empty() && mode.empty()) return not_reported("cluster", facts);
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

std::optional<Finding> commands(const RedisFacts& facts) {
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

Finding permissions(const RedisFacts& facts) {
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

std::optional<Finding> watching(const RedisFacts& facts) {
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
std::optional<Finding> work(const RedisFacts& facts) {
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

std::optional<Finding> scripts(const RedisFacts& facts) {
  if (!facts.refuses_undeclared) return std::nullopt;
  return Finding{
      "scripts", Level::error,
      "the server refuses keys that a script does not declare, such as the queue of a "
      "lock: " +
          printable(*facts.refuses_undeclared, 200),
      "use a server that allows them: Redis or Valkey on dedicated nodes, not a "
      "serverless service"};
}

// The next grants would go on from such a fence; see greatest_plausible_fence().
std::optional<Finding> fences(const RedisFacts& facts) {
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

std::vector<Finding> findings_of(const RedisFacts& facts) {
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
  findings.push_back(clock_finding(facts.clock_ahead));
  if (auto found = fences(facts)) findings.push_back(std::move(*found));
  if (auto found = round_trip_finding(facts.round_trips, facts.trips_to_renew))
    findings.push_back(std::move(*found));
  return findings;
}

void add_findings_of(std::span<const RedisFacts> servers,
                     std::vector<Finding>& findings) {
  for (const auto& server : servers) {
    for (auto& found : findings_of(server)) {
      add_worst(findings, std::move(found), server.server);
    }
  }
}

Examination examination_of(std::vector<Finding> findings,
                           std::span<const RedisFacts> servers) {
  std::optional<microseconds> slowest;
  for (const auto& one : servers) {
    const auto median = median_of(one.round_trips);
    if (median) slowest = std::max(slowest.value_or(*median), *median);
  }
  const auto trips = servers.empty() ? 0 : servers.front().trips_to_renew;
  return dlock::examination_of(std::move(findings), slowest, trips);
}

}  // namespace dlock::redis
