#include "store/postgres/pg_health.hpp"

#include <algorithm>
#include <utility>

#include "lock/lease.hpp"
#include "record/states.hpp"
#include "store/postgres/pg_login.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_trust.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

std::string shown(const std::string& text) { return printable(text, 200); }

// The rows of an answer; a value is empty if it is NULL or missing.
class Answer {
 public:
  Answer(const PgFacts& facts, std::string_view check) {
    const auto found = facts.answers.find(check);
    if (found != facts.answers.end()) rows_ = found->second;
  }
  std::size_t size() const { return rows_.size(); }
  const std::vector<Row>& rows() const { return rows_; }
  std::string text(std::size_t column, std::size_t row = 0) const {
    const bool is_there = row < rows_.size() && column < rows_[row].size();
    return is_there ? rows_[row][column].value_or("") : "";
  }
  std::optional<std::int64_t> number(std::size_t column) const {
    return number_in<std::int64_t>(text(column));
  }
  bool is_true(std::size_t column, std::size_t row = 0) const {
    return text(column, row) == "t";
  }

 private:
  std::vector<Row> rows_;
};

// A table of the schema, and what is missing there.
struct TableFacts {
  std::string name;
  bool exists = false;
  std::vector<std::string> missing_columns;
  std::vector<std::string> missing_rights;  // "INSERT"
  bool hides_rows = false;                  // row-level security applies to the user
};

std::vector<TableFacts> tables_of(const PgFacts& facts) {
  constexpr const char* rights[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};
  const Answer columns(facts, "permissions");
  std::vector<TableFacts> tables;
  for (const auto& needed : schema_tables) {
    TableFacts table;
    table.name = needed.name;
    table.missing_columns = columns_of(needed);
    for (std::size_t row = 0; row < columns.size(); ++row) {
      if (columns.text(0, row) != table.name) continue;
      std::erase(table.missing_columns, columns.text(1, row));
      if (std::exchange(table.exists, true)) continue;
      for (std::size_t i = 0; i < std::size(rights); ++i) {
        if (!columns.is_true(2 + i, row)) table.missing_rights.emplace_back(rights[i]);
      }
      table.hides_rows = columns.is_true(2 + std::size(rights), row);
    }
    if (!table.exists) table.missing_columns.clear();
    tables.push_back(std::move(table));
  }
  return tables;
}

bool has_schema(const PgFacts& facts) { return Answer(facts, "schema").is_true(0); }

std::vector<Distrust> distrusted_by(const PgFacts& facts) {
  Result result;
  result.rows = Answer(facts, "owner").rows();
  return distrust_from(result, facts.schema);
}

// The one that is used, or one that has answered; null if none has.
const HostFacts* host_of(const PgFacts& facts) {
  if (facts.primary) return &facts.hosts[*facts.primary];
  for (const auto& host : facts.hosts) {
    if (!host.failure) return &host;
  }
  return nullptr;
}

void login(const PgFacts& facts, CheckReport& say) {
  const auto* host = host_of(facts);
  if (host == nullptr) {
    const auto& failure = *facts.hosts.front().failure;
    const auto text = std::string_view(failure.what());
    if (text.find("certificate not trusted") == std::string_view::npos) {
      return judge_refusal(
          failure, "; also PGPASSWORD, ~/.pgpass, and pg_hba.conf on the server", say);
    }
    return say.error(
        failure.what(),
        "use --tls-ca FILE, with the CA certificate of the service or of "
        "whoever runs the server; --tls-insecure accepts any certificate, so "
        "that any server can pose as it");
  }
  const auto user = "user " + shown(facts.user);
  if (host->login.empty()) return say.ok(user + ", without a password");
  const auto message = user + ", by " + host->login;
  const bool is_md5 = host->login == "MD5";
  if (!is_md5 && host->login != "password") return say.ok(message);
  say.warning(
      message + (is_md5 ? ": whoever sees logins can find out the password"
                        : ": the server learns the password at each login"),
      "set password_encryption = 'scram-sha-256', set the password again, and use "
      "scram-sha-256 in pg_hba.conf");
}

// Whether each server is the one that is meant.
void tls(const PgFacts& facts, CheckReport& say) {
  std::string good;
  for (const auto& host : facts.hosts) {
    if (host.failure) continue;
    const std::string how = host.is_encrypted ? "encrypted" : "not encrypted";
    if (!host.proof.empty() || host.is_local) {
      if (!good.empty()) continue;
      good =
          how + (host.proof.empty() ? ", on this machine" : "; proven by " + host.proof);
      continue;
    }
    return say.warning(
        (facts.hosts.size() > 1 ? host.server + ": " : "") + how +
            ", and not proven to be the server that is meant: another one could take its "
            "place, and grant a lock twice",
        host.is_encrypted
            ? "add sslmode=verify-full to the URL, with --tls-ca if its certificate is "
              "not signed by a public authority"
            : "turn on ssl on the server, and add sslmode=verify-full to the URL");
  }
  say.ok(good);
}

// One server has to be the primary.
void role(const PgFacts& facts, CheckReport& say) {
  std::vector<std::string> standbys;
  for (const auto& host : facts.hosts) {
    if (!host.failure && host.is_standby) standbys.push_back(host.server);
  }
  if (!facts.primary) {
    return say.error((standbys.size() > 1 ? "only standbys: " : "a standby: ") +
                         listed(standbys) + "; a standby grants no locks",
                     "name the primary in the store URL, or all servers");
  }
  if (!facts.complaint.empty()) return say.warning(facts.complaint);
  if (facts.hosts.size() == 1) return say.ok("a primary");
  say.ok(
      facts.hosts[*facts.primary].server + " is the primary" +
      (standbys.empty() ? "" : "; " + std::to_string(standbys.size()) + " on standby"));
}

void version(const PgFacts& facts, CheckReport& say) {
  // They speak the protocol of PostgreSQL.
  constexpr std::string_view others[] = {"CockroachDB", "Redshift",    "-YB-",
                                         "Greenplum",   "Materialize", "QuestDB",
                                         "CrateDB",     "Spanner"};
  for (const auto name : others) {
    if (facts.product.find(name) == std::string::npos) continue;
    return say.warning((name == "-YB-" ? "YugabyteDB" : std::string(name)) +
                           ": dlock is not tested there, and promises nothing",
                       "use a PostgreSQL server for locks");
  }
  constexpr int oldest = static_cast<int>(oldest_major_version);
  judge_version("PostgreSQL " + printable(facts.version, 60),
                facts.version_number < oldest * 10'000,
                "PostgreSQL " + std::to_string(oldest) + " or later", say);
}

void schema(const PgFacts& facts, CheckReport& say) {
  const auto name = "schema " + facts.schema;
  std::vector<std::string> missing;
  for (const auto& table : tables_of(facts)) {
    if (!table.exists) missing.push_back(table.name);
    if (table.missing_columns.empty()) continue;
    return say.error(name + " has a table " + table.name + " without the column " +
                         table.missing_columns.front() + ": not made by this dlock",
                     "use another schema (?dlock_schema=NAME in the URL), or let a newer "
                     "dlock add what is missing");
  }
  const auto format = Answer(facts, "fences").number(0).value_or(0);
  if (format > record::greatest_state_format) {
    return say.error(name + " has locks that a newer dlock has written (format " +
                         std::to_string(format) + ")",
                     "upgrade dlock");
  }
  if (has_schema(facts) && missing.empty()) return say.ok(name);
  const auto lacks = has_schema(facts) ? name + " lacks " + listed(missing)
                                       : "there is no " + name + " in the database " +
                                             shown(facts.database);
  const bool may_create = Answer(facts, "schema").is_true(2);
  if (may_create) return say.info(lacks + "; dlock creates it on first use");
  say.error(lacks + ", and user " + shown(facts.user) + " may not create it",
            facts.schema_command);
}

void permissions(const PgFacts& facts, CheckReport& say) {
  if (!has_schema(facts)) {
    return say.not_checked("there is no schema " + facts.schema + " yet");
  }
  std::vector<std::string> missing;
  for (const auto& table : tables_of(facts)) {
    if (table.hides_rows) {
      return say.error("row-level security hides rows of " + table.name + " from user " +
                           shown(facts.user),
                       "ALTER TABLE " + in_schema(facts.schema, table.name) +
                           " DISABLE ROW LEVEL SECURITY, as the owner");
    }
    if (table.missing_rights.empty()) continue;
    missing.push_back(listed(table.missing_rights) + " on " + table.name);
  }
  auto lacks = missing.empty() ? "" : "lacks " + listed(missing);
  const bool may_use = Answer(facts, "schema").is_true(1);
  if (!may_use) lacks = "may not use the schema " + facts.schema;
  judge_permissions(shown(facts.user), lacks, facts.schema_command, say);
}

// The first owner that is not trusted: most often it owns the rest as well. Hidden rows
// are a matter of permissions.
void owner(const PgFacts& facts, CheckReport& say) {
  for (const auto& distrusted : distrusted_by(facts)) {
    if (distrusted.kind != Failure::Kind::misconfigured) continue;
    return say.error(distrusted.what, distrusted.advice);
  }
}

void copy(const PgFacts& facts, CheckReport& say) {
  for (const auto& distrusted : distrusted_by(facts)) {
    if (distrusted.is_copy) say.warning(distrusted.what, distrusted.advice);
  }
}

void strangers(const PgFacts& facts, CheckReport& say) {
  const Answer answer(facts, "strangers");
  std::vector<std::string> found;
  for (std::size_t row = 0; row < answer.size(); ++row) {
    found.push_back(printable(answer.text(0, row), 100));
  }
  if (found.empty()) return;
  say.warning("not made by dlock, in or on its schema " + facts.schema + ": " +
                  listed(found) +
                  ": such things can run code in each step, or change what it writes",
              "drop what you do not know");
}

void admit(const PgFacts& facts, CheckReport& say) {
  if (!has_schema(facts) || Answer(facts, "admit").is_true(0)) return;
  say.info("there is no function " + facts.schema +
               ".admit, with which applications check fences in their own transactions",
           facts.schema_command);
}

void fences(const PgFacts& facts, CheckReport& say) {
  const Answer greatest(facts, "fences");
  const auto now = wall_now() + facts.clock_ahead.value_or(std::chrono::microseconds(0));
  const auto fence = static_cast<std::uint64_t>(greatest.number(1).value_or(0));
  if (fence <= greatest_plausible_fence(now, {}).number) return;
  judge_fences({{"the lock " + greatest.text(2), std::to_string(fence)}}, say);
}

void pooler(const PgFacts& facts, CheckReport& say) {
  if (!facts.is_pooled) return say.ok("none");
  if (facts.transaction_failure) {
    return say.error("no transactions: " + std::string(facts.transaction_failure->what()),
                     "locks need them");
  }
  if (facts.listens) {
    return say.info("a pooler is in between; the URL says that it shares no session");
  }
  say.info(
      "a pooler is in between, which may share sessions among transactions: waiters and "
      "dlock watch ask again and again instead of being notified, and dlock break is "
      "noticed at the next renewal",
      "add listen=on to the URL if the pooler is in session mode, where no session is "
      "shared; else connect to the server itself to be notified");
}

void notifications(const PgFacts& facts, CheckReport& say) {
  if (!facts.listens) {
    return say.not_checked(facts.is_pooled ? "sessions do not listen behind a pooler"
                                           : "turned off by listen=off in the URL");
  }
  if (facts.was_notified) return say.ok("they arrive");
  const auto why = facts.listen_failure ? std::string(facts.listen_failure->what())
                                        : "a notification was sent and did not arrive";
  say.warning(why + ": waiters notice a release late, and holders dlock break",
              "connect to the server itself, or add listen=off to the URL");
}

void persistence(const PgFacts& facts, CheckReport& say) {
  const Answer settings(facts, "persistence");
  std::vector<std::string> off;
  for (const std::size_t i : {0U, 1U}) {
    const auto value = settings.text(i);
    if (value.empty()) return say.not_checked("the server does not report fsync");
    if (value != "on") off.emplace_back(i == 0 ? "fsync" : "full_page_writes");
  }
  if (off.empty()) return say.ok("fsync is on");
  const bool are_both = off.size() > 1;
  say.error(
      (are_both ? off[0] + " and " + off[1] + " are" : off[0] + " is") +
          " off: a crash of the machine can lose every lock, or damage the database",
      "set it to on in postgresql.conf, and reload");
}

void replicas(const PgFacts& facts, CheckReport& say) {
  const auto names = "synchronous_standby_names is " + shown(facts.standby_names);
  if (facts.too_few_standbys) {
    return say.error(*facts.too_few_standbys,
                     "set synchronous_standby_names on the server, or lower --replicas");
  }
  if (facts.replicas.all || facts.replicas.count > 0) {
    return say.ok("commits wait for standbys: " + names);
  }
  if (facts.standby_names.empty()) return say.ok("not asked for (--replicas)");
  say.info(names + ", and --replicas is not set: dlock does not check that it stays so",
           "--replicas 1, or all");
}

void timeouts(const PgFacts& facts, CheckReport& say) {
  const Answer limits(facts, "timeouts");
  std::vector<std::string> shorter;
  for (std::size_t row = 0; row < limits.size(); ++row) {
    const milliseconds limit(number_in<std::int64_t>(limits.text(1, row)).value_or(0));
    if (limit.count() == 0 || limit >= facts.store_timeout) continue;
    shorter.push_back(printable(limits.text(0, row), 40) + " = " + for_people(limit));
  }
  if (shorter.empty()) return;
  say.warning("user " + shown(facts.user) + " has " + listed(shorter) +
                  ", less than --store-timeout (" + for_people(facts.store_timeout) +
                  "): the server ends steps that could still succeed",
              "raise it for this role (ALTER ROLE ... SET), or lower --store-timeout");
}

void sessions(const PgFacts& facts, CheckReport& say) {
  const Answer answer(facts, "sessions");
  const auto count = [&](std::size_t column) {
    return answer.number(column).value_or(0);
  };
  auto used = count(0);
  std::optional<std::int64_t> limit;
  std::string limited_by;
  // The limit that is nearest: of sessions on the server, in the database, of the role.
  constexpr const char* names[] = {"max_connections for users",
                                   "the limit of the database", "the limit of the role"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    const auto most = answer.number(4 + i);
    const auto now = count(i == 0 ? 0 : 1 + i);
    if (!most || *most < 0 || (limit && *limit - used <= *most - now)) continue;
    limit = most;
    used = now;
    limited_by = names[i];
  }
  const auto message = std::to_string(used) + (used == 1 ? " session, " : " sessions, ") +
                       std::to_string(count(1)) + " of them dlock's" +
                       (limit ? "; " + limited_by + " is " + std::to_string(*limit) : "");
  constexpr const char* advice =
      "let hosts start at different times (--jitter), put a pooler between "
      "(docs/operating.md), or raise the limit";
  constexpr std::int64_t many = 200;
  if (limit && used * 2 > *limit) {
    return say.warning(message + ": waiters and holders may be refused a connection",
                       advice);
  }
  if (count(1) <= many) return say.ok(message);
  say.warning(message + ": each notification wakes all that listen", advice);
}

void snapshots(const PgFacts& facts, CheckReport& say) {
  const Answer oldest(facts, "snapshots");
  constexpr auto old = std::chrono::hours(1);
  constexpr std::int64_t many_transactions = 1'000'000;
  const std::chrono::seconds age(oldest.number(0).value_or(0));
  const auto transactions = oldest.number(1).value_or(0);
  if (age <= old && transactions <= many_transactions) {
    return say.ok("no old transaction is open");
  }
  say.warning(
      "a transaction is open since " +
          (age > old ? for_people(age) : std::to_string(transactions) + " transactions") +
          ": rows that locks leave behind cannot be removed, and steps become "
          "slower",
      "find it in pg_stat_activity by backend_xmin, and end it; set "
      "idle_in_transaction_session_timeout for its role");
}

const Check<PgFacts> all_checks[] = {
    {"reachable",
     [](const PgFacts& facts, CheckReport& say) {
       judge_reachable(servers_of(facts.hosts), 1, "listen_addresses, pg_hba.conf", say,
                       facts.primary && !facts.failure);
     },
     "", true},
    {"login", login, "", true},
    {"tls", tls},
    {"role", role, "", true},
    {"work",
     [](const PgFacts& facts, CheckReport& say) {
       if (facts.failure) judge_work(facts.failure->what(), say);
     },
     "", true},
    {"version", version},
    // Whether it exists, can be used, and what it lacks can be created.
    {"schema", schema,
     "SELECT n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), CASE WHEN n.oid IS "
     "NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE "
     "has_schema_privilege(n.oid, 'CREATE') END FROM (SELECT 1) one LEFT JOIN "
     "pg_namespace n ON n.nspname = $SCHEMA"},
    {"permissions", permissions,
     "SELECT c.relname, a.attname, has_table_privilege(c.oid, 'SELECT'), "
     "has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'), "
     "has_table_privilege(c.oid, 'DELETE'), row_security_active(c.oid) FROM pg_namespace "
     "n JOIN pg_class c ON c.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = "
     "c.oid WHERE n.nspname = $SCHEMA AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND "
     "NOT a.attisdropped"},
    {"owner", owner, trust_question},
    {"copy", copy},
    {"strangers", strangers, stranger_question},
    {"admit", admit,
     "SELECT EXISTS (SELECT 1 FROM pg_namespace n JOIN pg_proc p ON p.pronamespace = "
     "n.oid WHERE n.nspname = $SCHEMA AND p.proname = 'admit')"},
    // The fence is the first member of a state; one that is damaged has none.
    {"fences", fences,
     "SELECT max(l.format), max(f.fence), (array_agg(l.name ORDER BY f.fence DESC NULLS "
     "LAST))[1] FROM $LOCKS l, LATERAL (SELECT substring(l.state, "
     "'^{\"fence\":([0-9]{1,18}),')::int8) f(fence) WHERE l.namespace = $1"},
    {"pooler", pooler},
    {"notifications", notifications},
    {"persistence", persistence,
     "SELECT current_setting('fsync', true), current_setting('full_page_writes', true)"},
    {"replicas", replicas},
    {"timeouts", timeouts,
     "SELECT s.name, s.setting FROM pg_settings s WHERE s.name IN ('statement_timeout', "
     "'transaction_timeout', 'idle_session_timeout')"},
    {"sessions", sessions,
     "SELECT count(*), count(*) FILTER (WHERE a.application_name LIKE 'dlock%'), "
     "count(*) "
     "FILTER (WHERE a.datname = current_database()), count(*) FILTER (WHERE a.usename = "
     "current_user), current_setting('max_connections', true)::int8 - "
     "current_setting('superuser_reserved_connections', true)::int8, (SELECT "
     "d.datconnlimit FROM pg_database d WHERE d.datname = current_database()), (SELECT "
     "r.rolconnlimit FROM pg_roles r WHERE r.rolname = current_user) FROM "
     "pg_stat_activity a WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL"},
    // Of sessions that we may see, and in transactions, of all.
    {"snapshots", snapshots,
     "SELECT date_part('epoch', max(age(clock_timestamp(), a.xact_start)) FILTER (WHERE "
     "a.backend_xmin IS NOT NULL))::int8, max(age(a.backend_xmin)) FROM pg_stat_activity "
     "a WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL"},
};

}  // namespace

std::vector<Question> questions() {
  std::vector<Question> all;
  for (const auto& check : all_checks) {
    const bool reads_locks = check.question.find("$LOCKS") != std::string_view::npos;
    if (!check.question.empty()) all.push_back({check.name, check.question, reads_locks});
  }
  return all;
}

bool can_read_locks(const PgFacts& facts) {
  if (!Answer(facts, "schema").is_true(1) || !distrusted_by(facts).empty()) return false;
  const auto locks = tables_of(facts).front();
  return locks.exists && locks.missing_columns.empty() && locks.missing_rights.empty();
}

std::vector<Finding> findings_of(const PgFacts& facts) {
  return judged(all_checks, facts);
}

}  // namespace dlock::postgres
