#include "store/redis/health.hpp"

#include <algorithm>
#include <charconv>

#include "store/round_trips.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

using std::chrono::microseconds;
using Level = Finding::Level;

// A difference that does not matter in printed times.
constexpr microseconds close_enough = std::chrono::seconds(2);

std::string field(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

long long number_in(const Fields& fields, std::string_view name) {
  const auto text = field(fields, name);
  long long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Finding not_checked(const char* check, const Facts& facts) {
  const bool is_info = facts.info.empty();
  const auto said =
      (is_info ? facts.info_refused : facts.config_refused).value_or("no value returned");
  return {check, Level::info,
          std::string("not checked: ") + (is_info ? "INFO" : "CONFIG GET") +
              " was refused: " + printable(said, 200),
          "grant the permission: ACL SETUSER " + facts.user + " +info +config|get",
          false};
}

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

Finding permissions(const Facts& facts) {
  const auto user = "user " + facts.user;
  if (facts.missing_commands.empty() && !facts.keys_are_missing) {
    return {"permissions", Level::ok, user + " has all permissions that locks need", ""};
  }
  std::string message = user + " may not";
  std::string advice = "ACL SETUSER " + facts.user;
  for (const auto& command : facts.missing_commands) {
    message += (&command == &facts.missing_commands.front() ? " call " : ", ") + command;
    advice += " +" + command;
  }
  if (facts.keys_are_missing) {
    message += facts.missing_commands.empty() ? " access" : ", and may not access";
    message += " all keys " + facts.key_prefix + "*";
    advice += " ~" + facts.key_prefix + "*";
  }
  return {"permissions", Level::error, message, advice};
}

std::optional<Finding> watching(const Facts& facts) {
  if (facts.missing_for_watch.empty()) return std::nullopt;
  std::string commands;
  std::string granted;
  for (const auto& command : facts.missing_for_watch) {
    commands += (commands.empty() ? "" : ", ") + command;
    granted += " +" + command;
  }
  const auto channels = facts.key_prefix + "*";
  return Finding{"watch", Level::warning,
                 "dlock watch misses events: user " + facts.user + " may not call " +
                     commands + ", or not on the channels " + channels,
                 "ACL SETUSER " + facts.user + granted + " &" + channels};
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

Finding persistence(const Facts& facts) {
  const auto aof = field(facts.info, "aof_enabled");
  if (aof.empty()) return not_checked("persistence", facts);
  if (aof != "0") {
    if (field(facts.info, "aof_last_write_status") == "err") {
      return {"persistence", Level::warning,
              "the last write to the append-only file failed",
              "check the server's log, and whether its disk is full"};
    }
    return {"persistence", Level::ok, "append-only file", ""};
  }
  const auto save = facts.config.find("save");
  if (save == facts.config.end()) return not_checked("persistence", facts);
  if (!save->second.empty()) {
    return {"persistence", Level::info,
            "snapshots only: a restart loses the locks since the last snapshot",
            "set appendonly yes to keep them, or use --reclaim"};
  }
  return {"persistence", Level::warning, "none: a restart loses every lock",
          "CONFIG SET appendonly yes (and CONFIG REWRITE), or use --reclaim"};
}

Finding eviction(const Facts& facts) {
  const auto policy = field(facts.info, "maxmemory_policy");
  if (policy.empty()) return not_checked("eviction", facts);
  if (policy == "noeviction") return {"eviction", Level::ok, policy, ""};
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (number_in(facts.info, "maxmemory") == 0) {
    return {"eviction", Level::info, shown + " evicts nothing while maxmemory is not set",
            "before you set maxmemory: CONFIG SET maxmemory-policy noeviction"};
  }
  return {"eviction", Level::warning, shown + " can evict held locks when memory is full",
          "CONFIG SET maxmemory-policy noeviction, or use a separate server for locks"};
}

Finding replicas(const Facts& facts) {
  const auto connected = field(facts.info, "connected_slaves");
  if (connected.empty()) return not_checked("replicas", facts);
  if (number_in(facts.info, "connected_slaves") == 0) {
    return {"replicas", Level::ok, "none", ""};
  }
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = facts.info.count("min_slaves_good_slaves") > 0;
  const auto number = printable(connected, 10);
  if (is_asked_for || number_in(facts.config, "min-replicas-to-write") > 0) {
    return {"replicas", Level::ok, number + "; writes require replicas", ""};
  }
  return {"replicas", Level::warning,
          number +
              ", but min-replicas-to-write is not set: an isolated primary keeps "
              "granting locks that its successor does not have",
          "CONFIG SET min-replicas-to-write 1"};
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
  if (auto found = watching(facts)) findings.push_back(std::move(*found));
  if (auto found = work(facts)) findings.push_back(std::move(*found));
  if (auto found = scripts(facts)) findings.push_back(std::move(*found));
  for (const auto check : {persistence, eviction, replicas, clock}) {
    findings.push_back(check(facts));
  }
  if (auto found = round_trip_finding(facts.round_trips, facts.trips_to_renew))
    findings.push_back(std::move(*found));
  return findings;
}

}  // namespace dlock::redis
