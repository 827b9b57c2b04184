#include "store/postgres/pg_health.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lock/lease.hpp"
#include "record/states.hpp"
#include "store/checks.hpp"
#include "store/postgres/pg_login.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

using Level = Finding::Level;
using std::chrono::microseconds;

// Sessions of dlock in one database: each notification wakes all that listen.
constexpr std::int64_t many_sessions = 200;

constexpr const char* owner_command = "dlock doctor --schema | psql, as the owner";

std::string shown(const std::string& text) { return printable(text, 200); }

constexpr const char* login_advice =
    "check the user, the password (--user, --password-file, DLOCK_PASSWORD, PGPASSWORD, "
    "~/.pgpass), the certificates (--tls-ca, --tls-cert, --tls-key), and pg_hba.conf on "
    "the server";

constexpr const char* ca_advice =
    "use --tls-ca FILE, with the CA certificate of the service or of whoever runs the "
    "server; --tls-insecure accepts any certificate, so that any server can pose as it";

Finding reachable(const PgFacts& facts) {
  constexpr const char* advice =
      "check that the server runs, that the URL has the right host and port or socket, "
      "and that the server accepts connections from this machine (listen_addresses, "
      "pg_hba.conf, firewall)";
  if (facts.hosts.size() > 1) {
    Reached reached;
    for (const auto& host : facts.hosts) reached.failures.push_back(host.failure);
    reached.advice_if_too_few = advice;
    reached.advice =
        "restore the others: one of them has to become the primary if this "
        "one fails";
    return reached_finding("reachable", reached);
  }
  const auto& host = facts.hosts.front();
  if (host.failure) {
    const auto text = std::string_view(host.failure->what());
    const bool is_ca = text.find("certificate not trusted") != std::string_view::npos;
    return refusal_finding(*host.failure, is_ca ? ca_advice : login_advice, advice);
  }
  return {"reachable", Level::ok, host.server, ""};
}

// Whether the server is the one that is meant.
Finding identity(const HostFacts& host) {
  const std::string how = host.is_encrypted ? "encrypted" : "not encrypted";
  if (!host.proof.empty())
    return {"tls", Level::ok, how + "; proven by " + host.proof, ""};
  if (host.is_local) return {"tls", Level::ok, how + ", on this machine", ""};
  return {"tls", Level::warning,
          how +
              ", and not proven to be the server that is meant: another one could take "
              "its place, and grant a lock twice",
          host.is_encrypted
              ? "add sslmode=verify-full to the URL, with --tls-ca if its certificate is "
                "not signed by a public authority"
              : "turn on ssl on the server, and add sslmode=verify-full to the URL"};
}

// For the worst of several servers.
Finding identity(const PgFacts& facts) {
  if (facts.hosts.size() == 1) return identity(facts.hosts.front());
  std::vector<Finding> all;
  for (const auto& host : facts.hosts) {
    if (!host.failure) add_worst(all, identity(host), host.server);
  }
  return all.front();
}

Finding login(const PgFacts& facts, const HostFacts& primary) {
  const auto user = "user " + shown(facts.user);
  if (primary.login.empty()) {
    return {"login", Level::ok, user + ", without a password", ""};
  }
  const auto message = user + ", by " + primary.login;
  const bool is_weak = primary.login == "MD5" || primary.login == "password";
  if (!is_weak) return {"login", Level::ok, message, ""};
  return {"login", Level::warning,
          message + (primary.login == "MD5"
                         ? ": whoever sees logins can find out the password"
                         : ": the server learns the password at each login"),
          "set password_encryption = 'scram-sha-256', set the password again, and use "
          "scram-sha-256 in pg_hba.conf"};
}

// Not PostgreSQL, though it speaks its protocol; empty if it is.
std::string other_product(const std::string& version) {
  for (const std::string_view name : {"CockroachDB", "Redshift", "-YB-", "Greenplum",
                                      "Materialize", "QuestDB", "CrateDB", "Spanner"}) {
    if (version.find(name) == std::string::npos) continue;
    return name == "-YB-" ? "YugabyteDB" : std::string(name);
  }
  return "";
}

Finding version(const PgFacts& facts) {
  if (const auto other = other_product(facts.product); !other.empty()) {
    return {"version", Level::warning,
            other + ": dlock is not tested there, and promises nothing",
            "use a PostgreSQL server for locks"};
  }
  const auto name = "PostgreSQL " + printable(facts.version, 60);
  constexpr int oldest = static_cast<int>(oldest_major_version) * 10'000;
  if (facts.version_number >= oldest) return {"version", Level::ok, name, ""};
  return {"version", Level::error, name + " is too old",
          "upgrade: dlock needs PostgreSQL " + std::to_string(oldest_major_version) +
              " or later"};
}

// One server has to be the primary.
Finding role(const PgFacts& facts) {
  std::vector<std::string> standbys;
  for (const auto& host : facts.hosts) {
    if (!host.failure && host.is_standby) standbys.push_back(host.server);
  }
  if (!facts.primary) {
    return {"role", Level::error,
            (standbys.size() > 1 ? "only standbys: " : "a standby: ") + listed(standbys) +
                "; a standby grants no locks",
            "name the primary in the store URL, or all servers"};
  }
  if (!facts.complaint.empty()) return {"role", Level::warning, facts.complaint, ""};
  if (facts.hosts.size() == 1) return {"role", Level::ok, "a primary", ""};
  const auto rest =
      standbys.empty() ? "" : "; " + std::to_string(standbys.size()) + " on standby";
  return {"role", Level::ok,
          facts.hosts[*facts.primary].server + " is the primary" + rest, ""};
}

Finding schema(const PgFacts& facts) {
  const auto name = "schema " + facts.schema;
  const auto column_missing = std::find_if(
      facts.tables.begin(), facts.tables.end(),
      [](const TableFacts& table) { return !table.missing_columns.empty(); });
  if (column_missing != facts.tables.end()) {
    return {"schema", Level::error,
            name + " has a table " + column_missing->name + " without the column " +
                column_missing->missing_columns.front() + ": not made by this dlock",
            "use another schema (?dlock_schema=NAME in the URL), or let a newer dlock "
            "add what is missing"};
  }
  if (facts.format && *facts.format > record::greatest_state_format) {
    return {"schema", Level::error,
            name + " has locks that a newer dlock has written (format " +
                std::to_string(*facts.format) + ")",
            "upgrade dlock"};
  }
  std::vector<std::string> missing;
  for (const auto& table : facts.tables) {
    if (!table.exists) missing.push_back(table.name);
  }
  if (facts.has_schema && missing.empty()) return {"schema", Level::ok, name, ""};
  const auto lacks = facts.has_schema ? name + " lacks " + listed(missing)
                                      : "there is no " + name + " in the database " +
                                            shown(facts.database);
  if (facts.may_create) {
    return {"schema", Level::info, lacks + "; dlock creates it on first use", ""};
  }
  return {"schema", Level::error,
          lacks + ", and user " + shown(facts.user) + " may not create it",
          owner_command};
}

Finding permissions(const PgFacts& facts) {
  const auto user = "user " + shown(facts.user);
  if (!facts.has_schema) {
    return not_checked("permissions", "there is no schema " + facts.schema + " yet");
  }
  const auto advice = std::string(owner_command) + "; it grants what is missing";
  if (!facts.may_use_schema) {
    return {"permissions", Level::error, user + " may not use the schema " + facts.schema,
            advice};
  }
  std::vector<std::string> missing;
  for (const auto& table : facts.tables) {
    if (table.missing_rights.empty()) continue;
    missing.push_back(listed(table.missing_rights) + " on " + table.name);
  }
  if (!missing.empty()) {
    return {"permissions", Level::error, user + " lacks " + listed(missing), advice};
  }
  for (const auto& table : facts.tables) {
    if (!table.hides_rows) continue;
    return {"permissions", Level::error,
            "row-level security hides rows of " + table.name + " from " + user,
            "ALTER TABLE " + in_schema(facts.schema, table.name) +
                " DISABLE ROW LEVEL SECURITY, as the owner"};
  }
  return {"permissions", Level::ok, user + " has all permissions that locks need", ""};
}

std::optional<Finding> admit(const PgFacts& facts) {
  if (!facts.has_schema || facts.has_admit) return std::nullopt;
  return Finding{"admit", Level::info,
                 "there is no function " + facts.schema +
                     ".admit, with which applications check fences in their own "
                     "transactions",
                 owner_command};
}

Finding pooler(const PgFacts& facts) {
  if (!facts.is_pooled) return {"pooler", Level::ok, "none", ""};
  return {"pooler", Level::info,
          "a pooler shares sessions among transactions: waiters ask again and again "
          "instead of being notified, dlock break is noticed at the next renewal, and "
          "dlock watch does not work",
          "connect to the server itself to be notified"};
}

Finding notifications(const PgFacts& facts) {
  if (!facts.listens) {
    return not_checked("notifications", facts.is_pooled
                                            ? "sessions do not listen behind a pooler"
                                            : "turned off by listen=off in the URL");
  }
  if (facts.was_notified) return {"notifications", Level::ok, "they arrive", ""};
  const auto why = facts.listen_failure ? std::string(facts.listen_failure->what())
                                        : "a notification was sent and did not arrive";
  return {"notifications", Level::warning,
          why + ": waiters notice a release late, and holders dlock break",
          "connect to the server itself, or add listen=off to the URL"};
}

Finding persistence(const PgFacts& facts) {
  if (!facts.fsync || !facts.full_page_writes) {
    return not_checked("persistence", "the server does not report fsync");
  }
  std::string off;
  if (!*facts.fsync) off = "fsync";
  if (!*facts.full_page_writes)
    off += (off.empty() ? "" : " and ") + std::string("full_page_writes");
  if (off.empty()) return {"persistence", Level::ok, "fsync is on", ""};
  return {"persistence", Level::error,
          off + (off.size() > 16 ? " are" : " is") +
              " off: a crash of the machine can lose every lock, or damage the database",
          "set it to on in postgresql.conf, and reload"};
}

Finding replicas(const PgFacts& facts) {
  const auto& names = facts.standby_names;
  const bool wants_some = facts.replicas.all || facts.replicas.count > 0;
  if (facts.too_few_standbys) {
    return {"replicas", Level::error, *facts.too_few_standbys,
            "set synchronous_standby_names on the server, or lower --replicas"};
  }
  if (wants_some) {
    return {"replicas", Level::ok,
            "commits wait for the standbys in synchronous_standby_names: " + shown(names),
            ""};
  }
  if (!names.empty()) {
    return {"replicas", Level::info,
            "synchronous_standby_names is " + shown(names) +
                ", and --replicas is not set: dlock does not check that it stays so",
            "--replicas 1, or all"};
  }
  return {"replicas", Level::ok, "not asked for (--replicas)", ""};
}

std::optional<Finding> timeouts(const PgFacts& facts) {
  const auto of_runs =
      facts.timeout == examination_limit ? PgFacts().timeout : facts.timeout;
  std::vector<std::string> shorter;
  for (const auto& timeout : facts.timeouts) {
    if (timeout.limit.count() > 0 && timeout.limit < of_runs) {
      shorter.push_back(timeout.name + " = " + for_people(timeout.limit));
    }
  }
  if (shorter.empty()) return std::nullopt;
  return Finding{"timeouts", Level::warning,
                 "user " + shown(facts.user) + " has " + listed(shorter) +
                     ", less than --store-timeout (" + for_people(of_runs) +
                     "): the server ends steps that could still succeed",
                 "raise it for this role (ALTER ROLE ... SET), or lower --store-timeout"};
}

Finding sessions(const PgFacts& facts) {
  const auto& now = facts.sessions;
  auto message = std::to_string(now.used) +
                 (now.used == 1 ? " session, " : " sessions, ") +
                 std::to_string(now.dlock) + " of them dlock's";
  if (now.limit) {
    message += "; " + now.limited_by + " is " + std::to_string(*now.limit);
  }
  constexpr const char* advice =
      "let hosts start at different times (--jitter), put a pooler between "
      "(docs/operating.md), or raise the limit";
  if (now.limit && now.used * 2 > *now.limit) {
    return {"sessions", Level::warning,
            message + ": waiters and holders may be refused a connection", advice};
  }
  if (now.dlock > many_sessions) {
    return {"sessions", Level::warning,
            message + ": each notification wakes all that listen", advice};
  }
  return {"sessions", Level::ok, message, ""};
}

Finding snapshots(const PgFacts& facts) {
  constexpr auto old = std::chrono::hours(1);
  constexpr std::int64_t many_transactions = 1'000'000;
  constexpr const char* harm =
      ": rows that locks leave behind cannot be removed, and steps become slower";
  constexpr const char* advice =
      "find it in pg_stat_activity by backend_xmin, and end it; set "
      "idle_in_transaction_session_timeout for its role";
  if (facts.oldest_snapshot && *facts.oldest_snapshot > old) {
    return {"snapshots", Level::warning,
            "a transaction is open since " + for_people(*facts.oldest_snapshot) + harm,
            advice};
  }
  if (facts.oldest_snapshot_age && *facts.oldest_snapshot_age > many_transactions) {
    return {"snapshots", Level::warning,
            "a transaction is open since " + std::to_string(*facts.oldest_snapshot_age) +
                " transactions" + harm,
            advice};
  }
  return {"snapshots", Level::ok, "no old transaction is open", ""};
}

// The next grants would go on from such a fence.
std::optional<Finding> fences(const PgFacts& facts) {
  const auto now = wall_now() + facts.clock_ahead.value_or(std::chrono::microseconds(0));
  const auto greatest = static_cast<std::uint64_t>(facts.greatest_fence.value_or(0));
  if (greatest <= greatest_plausible_fence(now, {}).number) return std::nullopt;
  return Finding{"fences", Level::warning,
                 "the lock " + printable(facts.greatest_fence_of, 300) + " has fence " +
                     std::to_string(greatest) + ": implausibly far ahead of the clock",
                 "see 'A fence far ahead of the clock' in docs/operating.md"};
}

}  // namespace

std::vector<Finding> findings_of(const PgFacts& facts) {
  std::vector<Finding> findings{reachable(facts)};
  const auto reached = std::find_if(facts.hosts.begin(), facts.hosts.end(),
                                    [](const HostFacts& host) { return !host.failure; });
  if (reached == facts.hosts.end()) return findings;
  findings.push_back(identity(facts));
  findings.push_back(
      login(facts, facts.primary ? facts.hosts[*facts.primary] : *reached));
  findings.push_back(role(facts));
  if (!facts.primary) return findings;
  if (facts.failure) {
    findings.push_back(
        {"work", Level::error, facts.failure->what(), "check the server's log"});
    return findings;
  }
  for (const auto check : {version, schema, permissions})
    findings.push_back(check(facts));
  if (auto found = admit(facts)) findings.push_back(std::move(*found));
  if (auto found = fences(facts)) findings.push_back(std::move(*found));
  for (const auto check : {pooler, notifications, persistence, replicas}) {
    findings.push_back(check(facts));
  }
  if (auto found = timeouts(facts)) findings.push_back(std::move(*found));
  for (const auto check : {sessions, snapshots}) findings.push_back(check(facts));
  findings.push_back(clock_finding(facts.clock_ahead));
  if (auto found = round_trip_finding(facts.round_trips, facts.trips_to_renew)) {
    findings.push_back(std::move(*found));
  }
  return findings;
}

}  // namespace dlock::postgres
