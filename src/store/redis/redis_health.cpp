#include "store/redis/redis_health.hpp"

#include <algorithm>
#include <utility>

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

// "ACL SETUSER USER RULES", quoted so that it can be pasted into a shell behind
// redis-cli, or at its prompt: the permissions for these commands, and another rule.
std::string granting(const RedisFacts& server, const std::vector<std::string>& commands,
                     const std::string& rule = "") {
  std::vector<std::string> words{"ACL", "SETUSER", server.user};
  for (const auto& command : commands) words.push_back('+' + command);
  if (!rule.empty()) words.push_back(rule);
  constexpr std::size_t longest = 2000;
  return printable_command(words, longest);
}

// A value is missing, for want of a permission.
void not_reported(const RedisFacts& server, CheckReport& say) {
  const bool is_info = server.info.empty();
  const auto said = (is_info ? server.info_refused : server.config_refused)
                        .value_or("no value returned");
  say.not_checked((is_info ? "INFO was refused: " : "CONFIG GET was refused: ") +
                      printable(said, 200),
                  "grant the permission: " + granting(server, {"info", "config|get"}));
}

void login(const RedisFacts& server, CheckReport& say) {
  if (server.failure) return judge_refusal(*server.failure, "", say);
  if (!server.no_login) return say.ok("user " + server.user);
  say.error("the server requires a login: " + printable(*server.no_login, 200),
            "set a password (--password-file or DLOCK_PASSWORD), and a user (--user) "
            "unless it is the default user");
}

bool is_before(std::string_view version, int major, int minor) {
  const auto first = take_number<int>(version).value_or(0);
  if (version.starts_with('.')) version.remove_prefix(1);
  const auto second = take_number<int>(version).value_or(0);
  return first != major ? first < major : second < minor;
}

void version(const RedisFacts& server, CheckReport& say) {
  auto text = field(server.info, "valkey_version");
  const bool is_valkey = !text.empty() || field(server.hello, "server") == "valkey";
  if (text.empty()) text = field(server.info, "redis_version");
  if (text.empty()) text = field(server.hello, "version");
  if (text.empty()) return not_reported(server, say);
  judge_version((is_valkey ? "Valkey " : "Redis ") + printable(text, 40),
                is_valkey ? is_before(text, 7, 2) : is_before(text, 6, 2),
                "Redis 6.2 or later, or Valkey 7.2 or later", say);
}

bool refuses_with(const RedisFacts& server, std::string_view code) {
  return server.refuses_work && server.refuses_work->starts_with(code);
}

void sentinel(const RedisFacts& server, CheckReport& say) {
  if (field(server.hello, "mode") != "sentinel" &&
      field(server.info, "redis_mode") != "sentinel") {
    return;
  }
  say.error("a sentinel, which has no locks",
            "use redis+sentinel://" + server.server +
                "/MASTER with the name of the primary in `sentinel monitor`");
}

void role(const RedisFacts& server, CheckReport& say) {
  auto role = field(server.info, "role");
  if (role.empty()) role = field(server.hello, "role");
  if (role.empty() && refuses_with(server, "READONLY")) role = "replica";
  if (role.empty()) return not_reported(server, say);
  if (role == "master") return say.ok("a primary");
  auto primary = printable(field(server.info, "master_host"), 200);
  if (!primary.empty()) {
    primary = " of " + primary + ":" + printable(field(server.info, "master_port"), 8);
  }
  say.error("a replica" + primary + "; replicas grant no locks",
            "name the primary in the store URL");
}

void cluster(const RedisFacts& server, CheckReport& say) {
  const auto enabled = field(server.info, "cluster_enabled");
  const auto mode = field(server.hello, "mode");
  if (enabled.empty() && mode.empty()) return not_reported(server, say);
  if (server.is_in_cluster) return say.ok("cluster member");
  if (enabled != "1" && mode != "cluster") return say.ok("none");
  say.error("the server is a member of a cluster", "use a redis+cluster:// store URL");
}

void permissions(const RedisFacts& server, CheckReport& say) {
  const auto& commands = server.missing_commands;
  const bool lacks_commands = !commands.empty();
  std::string missing = lacks_commands ? "may not call " + listed(commands) : "";
  std::string rule;
  if (server.keys_are_missing) {
    missing += lacks_commands ? ", and may not access" : "may not access";
    missing += " all keys " + server.key_prefix + "*";
    rule = '~' + server.key_prefix + '*';
  }
  judge_permissions(server.user, missing, granting(server, commands, rule), say);
}

void commands(const RedisFacts& server, CheckReport& say) {
  const bool is_for_watch = server.unknown_commands.empty();
  const auto& unknown = is_for_watch ? server.unknown_for_watch : server.unknown_commands;
  if (unknown.empty()) return;
  say.level(is_for_watch ? Finding::Level::warning : Finding::Level::error,
            (is_for_watch ? "dlock watch misses events: " : "") +
                ("the server does not know " + listed(unknown)) +
                " (renamed or disabled, or not forwarded by a proxy)",
            "remove the server's rename-command for it, or use a server that has this "
            "command, without a proxy");
}

void watch(const RedisFacts& server, CheckReport& say) {
  if (server.missing_for_watch.empty()) return;
  const auto channels = server.key_prefix + "*";
  say.warning("dlock watch misses events: user " + server.user + " may not call " +
                  listed(server.missing_for_watch) + ", or not on the channels " +
                  channels,
              granting(server, server.missing_for_watch, '&' + channels));
}

// Nothing where the role is the cause.
void work(const RedisFacts& server, CheckReport& say) {
  constexpr std::pair<std::string_view, const char*> advices[] = {
      {"READONLY", ""},
      {"MASTERDOWN", ""},
      {"MOVED", ""},
      {"CLUSTERDOWN", ""},
      {"OOM", "raise maxmemory, or remove data"},
      {"NOREPLICAS", "restore its replicas, or lower min-replicas-to-write"},
      {"MISCONF",
       "check the server's log for why it cannot save, and whether its disk is "
       "full"},
      {"LOADING", "wait until it has loaded its data"},
      {"BUSY", "stop the script that keeps it busy (SCRIPT KILL)"},
  };
  if (!server.refuses_work) return;
  for (const auto& [code, advice] : advices) {
    if (!refuses_with(server, code)) continue;
    if (*advice != '\0') judge_work(*server.refuses_work, say, advice);
    return;
  }
  judge_work(*server.refuses_work, say);
}

void scripts(const RedisFacts& server, CheckReport& say) {
  if (!server.refuses_undeclared) return;
  say.error(
      "the server refuses keys that a script does not declare, such as the queue of a "
      "lock: " +
          printable(*server.refuses_undeclared, 200),
      "use a server that allows them: Redis or Valkey on dedicated nodes, not a "
      "serverless service");
}

void persistence(const RedisFacts& server, CheckReport& say) {
  const auto aof = field(server.info, "aof_enabled");
  if (aof.empty()) return not_reported(server, say);
  if (aof != "0") {
    if (field(server.info, "aof_last_write_status") != "err") {
      return say.ok("append-only file");
    }
    return say.warning("the last write to the append-only file failed",
                       "check the server's log, and whether its disk is full");
  }
  const auto save = server.config.find("save");
  if (save == server.config.end()) return not_reported(server, say);
  if (!save->second.empty()) {
    return say.info("snapshots only: a restart loses the locks since the last snapshot",
                    "set appendonly yes to keep them, or use --reclaim");
  }
  say.warning("none: a restart loses every lock",
              "CONFIG SET appendonly yes (and CONFIG REWRITE), or use --reclaim");
}

void eviction(const RedisFacts& server, CheckReport& say) {
  const auto policy = field(server.info, "maxmemory_policy");
  if (policy.empty()) return not_reported(server, say);
  if (policy == "noeviction") return say.ok(policy);
  const auto shown = "maxmemory-policy " + printable(policy, 40);
  if (number_field(server.info, "maxmemory") == 0) {
    return say.info(shown + " evicts nothing while maxmemory is not set",
                    "before you set maxmemory: CONFIG SET maxmemory-policy noeviction");
  }
  say.warning(shown + " can evict held locks when memory is full",
              "CONFIG SET maxmemory-policy noeviction, or use a separate server for "
              "locks");
}

void replicas(const RedisFacts& server, CheckReport& say) {
  const auto connected = field(server.info, "connected_slaves");
  if (connected.empty()) return not_reported(server, say);
  if (number_field(server.info, "connected_slaves") == 0) return say.ok("none");
  // INFO contains it only if both min-replicas settings are on.
  const bool is_asked_for = server.info.count("min_slaves_good_slaves") > 0;
  const auto number = printable(connected, 10);
  if (is_asked_for || number_field(server.config, "min-replicas-to-write") > 0) {
    return say.ok(number + "; writes require replicas");
  }
  say.warning(number +
                  ", but min-replicas-to-write is not set: an isolated primary keeps "
                  "granting locks that its successor does not have",
              "CONFIG SET min-replicas-to-write 1");
}

// How many of the permitted connections are in use.
void clients(const RedisFacts& server, CheckReport& say) {
  const auto limit = std::max(number_field(server.info, "maxclients"),
                              number_field(server.config, "maxclients"));
  const auto used = number_field(server.info, "connected_clients");
  if (limit <= 0 || used <= 0) return not_reported(server, say);
  const auto free = std::max(limit - used, 0LL);
  const auto shown = std::to_string(used) + " of " + std::to_string(limit) +
                     " connections in use, room for " + std::to_string(free) +
                     " waiters or " + std::to_string(free / connections_of_holder) +
                     " holders";
  if (free < limit / 4) {
    return say.warning(shown + "; others cannot connect",
                       "CONFIG SET maxclients " + std::to_string(4 * limit) +
                           " (and raise the limit of open files, LimitNOFILE), or "
                           "close idle connections (CONFIG SET timeout)");
  }
  const auto refused = number_field(server.info, "rejected_connections");
  if (refused == 0) return say.ok(shown);
  say.info(shown + "; the server has refused " + std::to_string(refused) +
               " connections since its start",
           "raise maxclients, or let hosts start at different times (--jitter)");
}

// How many TLS connections the server accepts at once.
void tls_connections(const RedisFacts& server, CheckReport& say) {
  const auto limit = number_field(server.config, "max-new-tls-connections-per-cycle");
  if (!server.uses_tls || limit <= 0) return;  // without TLS, or before Redis 7.4
  const auto shown = "max-new-tls-connections-per-cycle " + std::to_string(limit);
  if (limit <= most_tls_handshakes) return say.ok(shown);
  say.warning(shown + ": many new connections at once delay renewals",
              "CONFIG SET max-new-tls-connections-per-cycle 10");
}

constexpr Check<RedisFacts> checks[] = {
    {"reachable",
     [](const RedisFacts& server, CheckReport& say) {
       if (!server.failure || !server.was_reached || is_refusal(*server.failure)) {
         return judge_reachable({server}, 1, "bind, protected-mode", say);
       }
       say.error(server.failure->what(),
                 "the server replied at first: check what keeps it busy (SLOWLOG "
                 "GET, its log)");
     },
     "", true},
    {"login", login, "", true},
    {"role", sentinel, "INFO server", true},
    {"version", version, "INFO server"},
    {"role", role, "INFO replication"},
    {"cluster", cluster, "INFO cluster,CONFIG GET cluster-node-timeout"},
    {"permissions", permissions},
    {"commands", commands},
    {"watch", watch},
    {"work", work},
    {"scripts", scripts},
    {"persistence", persistence, "INFO persistence,CONFIG GET save"},
    {"eviction", eviction, "INFO memory"},
    {"replicas", replicas, "INFO replication,CONFIG GET min-replicas-to-write"},
    {"clients", clients, "INFO clients,INFO stats,CONFIG GET maxclients"},
    {"tls", tls_connections, "CONFIG GET max-new-tls-connections-per-cycle"},
    {"fences", [](const RedisFacts& server,
                  CheckReport& say) { judge_fences(server.far_fences, say); }},
};

}  // namespace

std::vector<std::string> questions() {
  std::vector<std::string> all;
  for (const auto& check : checks) {
    for (auto rest = check.question; !rest.empty();) {
      const auto end = std::min(rest.find(','), rest.size());
      const std::string question(rest.substr(0, end));
      const bool is_new = std::find(all.begin(), all.end(), question) == all.end();
      if (is_new) all.push_back(question);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return all;
}

std::vector<Finding> findings_of(const RedisFacts& facts) {
  return judged(checks, facts);
}

void add_findings_of(const std::vector<RedisFacts>& servers,
                     std::vector<Finding>& findings) {
  for (const auto& server : servers) {
    for (auto& found : findings_of(server)) {
      add_worst(findings, std::move(found), server.server);
    }
  }
}

Examination examination_of(std::vector<Finding> findings,
                           const std::vector<RedisFacts>& servers) {
  return dlock::examination_of(std::move(findings), {servers.begin(), servers.end()});
}

}  // namespace dlock::redis
