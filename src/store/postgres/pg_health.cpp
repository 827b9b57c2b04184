#include "store/postgres/pg_health.hpp"

#include <algorithm>
#include <utility>

#include "lock/lease.hpp"
#include "record/states.hpp"
#include "store/fan_out.hpp"
#include "store/postgres/pg_connection.hpp"
#include "store/postgres/pg_login.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_store.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_trust.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// --- The checks ---

std::string shown(const std::string& text) { return printable(text, 200); }

// Rows of which a value is empty if it is NULL or missing.
class Answer {
 public:
  explicit Answer(std::vector<Row> rows) : rows_(std::move(rows)) {}
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
  std::int64_t number(std::size_t column, std::size_t row = 0) const {
    return number_in<std::int64_t>(text(column, row)).value_or(0);
  }
  bool is_true(std::size_t column, std::size_t row = 0) const {
    return text(column, row) == "t";
  }

 private:
  std::vector<Row> rows_;
};

bool has_schema(const PgFacts& facts) { return Answer(facts, "schema").is_true(0); }

std::vector<Distrust> distrusted_by(const PgFacts& facts) {
  Result result;
  result.rows = Answer(facts, "owner").rows();
  return distrust_from(result, facts.schema);
}

void reachable(const PgFacts& facts, CheckReport& say) {
  judge_reachable(servers_of(facts.hosts), 1, "listen_addresses, pg_hba.conf", say,
                  facts.primary && !facts.failure);
}

void login(const PgFacts& facts, CheckReport& say) {
  // The one that is used, or one that has answered.
  const auto answered = std::ranges::find_if(
      facts.hosts, [](const HostFacts& host) { return !host.failure; });
  if (answered == facts.hosts.end()) {
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
  const auto& method = (facts.primary ? facts.hosts[*facts.primary] : *answered).login;
  const auto user = "user " + shown(facts.user);
  if (method.empty()) return say.ok(user, ", without a password");
  const bool is_md5 = method == "MD5";
  if (!is_md5 && method != "password") return say.ok(user, ", by ", method);
  say.warning(
      user + ", by " + method +
          (is_md5 ? ": whoever sees logins can find out the password"
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
    if (!host.failure && host.standing.is_standby) standbys.push_back(host.server);
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

void work(const PgFacts& facts, CheckReport& say) {
  if (facts.failure) judge_work(facts.failure->what(), say);
}

void schema(const PgFacts& facts, CheckReport& say) {
  const auto name = "schema " + facts.schema;
  const Answer tables(facts, "permissions");
  std::vector<std::string> missing;
  for (std::size_t row = 0; row < tables.size(); ++row) {
    if (!tables.is_true(1, row)) missing.push_back(tables.text(0, row));
    if (tables.text(2, row).empty()) continue;
    return say.error(name + " has a table " + tables.text(0, row) +
                         " without the column " + tables.text(2, row) +
                         ": not made by this dlock",
                     "use another schema (?dlock_schema=NAME in the URL), or let a newer "
                     "dlock add what is missing");
  }
  const auto format = Answer(facts, "fences").number(0);
  if (format > record::greatest_state_format) {
    return say.error(
        joined(name, " has locks that a newer dlock has written (format ", format, ")"),
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
  for (const auto& distrusted : distrusted_by(facts)) {
    const bool is_about_rows = distrusted.kind == Failure::Kind::rejected;
    if (distrusted.is_copy || !is_about_rows) continue;
    return say.error(distrusted.what, distrusted.advice);
  }
  const Answer tables(facts, "permissions");
  std::vector<std::string> missing;
  for (std::size_t row = 0; row < tables.size(); ++row) {
    const auto rights = tables.text(3, row);
    if (!rights.empty()) missing.push_back(rights + " on " + tables.text(0, row));
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
  const auto fence = static_cast<std::uint64_t>(greatest.number(1));
  if (fence <= greatest_plausible_fence(now, {}).number) return;
  judge_fences({{"the lock " + greatest.text(2), std::to_string(fence)}}, say);
}

void pooler(const PgFacts& facts, CheckReport& say) {
  if (!facts.is_pooled) return say.ok("none");
  if (facts.transaction_failure) {
    return say.error(joined("no transactions: ", facts.transaction_failure->what()),
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
  if (settings.number(0) < 2) return say.not_checked("the server does not report fsync");
  const auto off = settings.text(1);
  if (off.empty()) return say.ok("fsync is on");
  say.error(
      off + " off: a crash of the machine can lose every lock, or damage the database",
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
    const milliseconds limit(limits.number(1, row));
    if (limit.count() == 0 || limit >= facts.store_timeout) continue;
    shorter.push_back(printable(limits.text(0, row), 40) + " = " + for_people(limit));
  }
  if (shorter.empty()) return;
  say.warning("user " + shown(facts.user) + " has " + listed(shorter) +
                  ", less than --store-timeout (" + for_people(facts.store_timeout) +
                  "): the server ends steps that could still succeed",
              "raise it for this role (ALTER ROLE ... SET), or lower --store-timeout");
}

// Of the limits, the one that is nearest.
void sessions(const PgFacts& facts, CheckReport& say) {
  const Answer answer(facts, "sessions");
  const auto of_dlock = answer.number(0);
  const auto used = answer.number(1);
  const auto limit = answer.number(2);
  const bool is_limited = !answer.text(2).empty();
  const auto message =
      joined(counted(used, "session"), ", ", of_dlock, " of them dlock's",
             is_limited ? joined("; ", answer.text(3), " is ", limit) : "");
  constexpr const char* advice =
      "let hosts start at different times (--jitter), put a pooler between "
      "(docs/operating.md), or raise the limit";
  constexpr std::int64_t many = 200;
  if (is_limited && used * 2 > limit) {
    return say.warning(message + ": waiters and holders may be refused a connection",
                       advice);
  }
  if (of_dlock <= many) return say.ok(message);
  say.warning(message + ": each notification wakes all that listen", advice);
}

void snapshots(const PgFacts& facts, CheckReport& say) {
  const Answer oldest(facts, "snapshots");
  constexpr auto old = std::chrono::hours(1);
  constexpr std::int64_t many_transactions = 1'000'000;
  const std::chrono::seconds age(oldest.number(0));
  const auto transactions = oldest.number(1);
  if (age <= old && transactions <= many_transactions) {
    return say.ok("no old transaction is open");
  }
  say.warning(
      "a transaction is open since " +
          (age > old ? for_people(age) : joined(transactions, " transactions")) +
          ": rows that locks leave behind cannot be removed, and steps become slower",
      "find it in pg_stat_activity by backend_xmin, and end it; set "
      "idle_in_transaction_session_timeout for its role");
}

// The questions are statements for in_catalog(), in which $COLUMNS are the tables and
// their columns. One that reads the table of locks, $LOCKS, has the namespace as its
// parameter.
const Check<PgFacts> all_checks[] = {
    {"reachable", reachable, "", true},
    {"login", login, "", true},
    {"tls", tls},
    {"role", role, "", true},
    {"work", work, "", true},
    {"version", version},
    // Whether it exists, can be used, and what it lacks can be created.
    {"schema", schema,
     "SELECT n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), CASE WHEN n.oid IS "
     "NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE "
     "has_schema_privilege(n.oid, 'CREATE') END FROM (SELECT 1) one LEFT JOIN "
     "pg_namespace n ON n.nspname = $SCHEMA"},
    // Of each table, the first column that it lacks, and the rights that the user lacks.
    {"permissions", permissions,
     "SELECT t.name, c.oid IS NOT NULL, (SELECT w.name FROM unnest(t.columns) WITH "
     "ORDINALITY w(name, at) WHERE c.oid IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
     "pg_attribute a WHERE a.attrelid = c.oid AND a.attname = w.name AND a.attnum > 0 "
     "AND NOT a.attisdropped) ORDER BY w.at LIMIT 1), (SELECT string_agg(r.name, ', ' "
     "ORDER BY r.at) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH "
     "ORDINALITY r(name, at) WHERE NOT has_table_privilege(c.oid, r.name)) FROM (VALUES "
     "$COLUMNS) t(at, name, columns) LEFT JOIN (pg_namespace n JOIN pg_class c ON "
     "c.relnamespace = n.oid AND n.nspname = $SCHEMA AND c.relkind IN ('r', 'p')) ON "
     "c.relname = t.name ORDER BY t.at"},
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
     "SELECT count(*), string_agg(s.name, ' and ' ORDER BY s.name) FILTER (WHERE "
     "s.setting <> 'on') || CASE count(*) FILTER (WHERE s.setting <> 'on') WHEN 1 THEN ' "
     "is' ELSE ' are' END FROM pg_settings s WHERE s.name IN ('fsync', "
     "'full_page_writes')"},
    {"replicas", replicas},
    {"timeouts", timeouts,
     "SELECT s.name, s.setting FROM pg_settings s WHERE s.name IN ('statement_timeout', "
     "'transaction_timeout', 'idle_session_timeout')"},
    {"sessions", sessions,
     "SELECT a.dlock, l.used, l.most, l.name FROM (SELECT count(*), count(*) FILTER "
     "(WHERE s.application_name LIKE 'dlock%'), count(*) FILTER (WHERE s.datname = "
     "current_database()), count(*) FILTER (WHERE s.usename = current_user) FROM "
     "pg_stat_activity s WHERE s.usesysid IS NOT NULL AND s.datid IS NOT NULL) a(used, "
     "dlock, here, mine), LATERAL (VALUES (a.used, "
     "current_setting('max_connections', true)::int8 - "
     "current_setting('superuser_reserved_connections', true)::int8, 'max_connections "
     "for users'), (a.here, (SELECT d.datconnlimit FROM pg_database d WHERE d.datname = "
     "current_database() AND d.datconnlimit >= 0), 'the limit of the database'), "
     "(a.mine, (SELECT r.rolconnlimit FROM pg_roles r WHERE r.rolname = current_user AND "
     "r.rolconnlimit >= 0), 'the limit of the role')) l(used, most, name) ORDER BY "
     "l.most - l.used NULLS LAST LIMIT 1"},
    // Of sessions that we may see, and in transactions, of all.
    {"snapshots", snapshots,
     "SELECT date_part('epoch', max(age(clock_timestamp(), a.xact_start)) FILTER (WHERE "
     "a.backend_xmin IS NOT NULL))::int8, max(age(a.backend_xmin)) FROM pg_stat_activity "
     "a WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL"},
};

// --- The questions ---

std::string columns_in_sql() {
  std::string values;
  for (const auto& table : schema_tables) {
    values += joined(values.empty() ? "(" : ", (", values.size(), ", '", table.name,
                     "', '{", table.columns, "}'::name[])");
  }
  return values;
}

// Whether the schema is such that reading the table of locks runs no code of others.
bool can_read_locks(const PgFacts& facts) {
  const Answer tables(facts, "permissions");  // that of locks is the first
  return Answer(facts, "schema").is_true(1) && distrusted_by(facts).empty() &&
         tables.is_true(1) && tables.text(2).empty() && tables.text(3).empty();
}

std::string shown_method(const std::string& method) {
  if (method.starts_with("scram")) return "SCRAM-SHA-256";
  if (method == "md5") return "MD5";
  return method == "trust" ? "" : method;
}

asio::awaitable<HostFacts> ask_host(asio::io_context& context, PgTarget target,
                                    milliseconds timeout, Wakeup& wakeup) {
  HostFacts host;
  host.server = target.shown();
  host.is_local = !target.path.empty() || target.host == "localhost" ||
                  target.host == "::1" || target.host.starts_with("127.");
  const bool is_remote = target.path.empty();
  if (target.application_name.empty()) target.application_name = "dlock doctor";
  target.wants_to_know = true;
  host.connection = std::make_shared<PgConnection>(context, std::move(target));
  try {
    co_await host.connection->open(wakeup.within(timeout));
    const auto& session = host.connection->server_facts();
    host.is_encrypted = session.is_encrypted;
    host.login = shown_method(session.method);
    if (session.is_proven && is_remote) {
      host.proof = session.method.ends_with("-plus") ? "channel binding with the password"
                                                     : "its certificate";
    }
    std::vector<Batch> question(1, Batch(1, standing_question(true)));
    const auto replies =
        co_await host.connection->exchange(std::move(question), wakeup.within(timeout));
    // Another product may not know what that asks for.
    host.standing = standing_from(replies.front()).value_or(PgStanding());
  } catch (const Failure& failure) {
    host.failure = let_pass(failure);
  }
  co_return host;
}

class PrimaryExaminer {
 public:
  PrimaryExaminer(PgFacts& facts, const ExaminationOrder& order, Wakeup& wakeup)
      : facts_(facts),
        connection_(*facts.hosts[*facts.primary].connection),
        order_(order),
        wakeup_(wakeup) {}

  asio::awaitable<void> examine() {
    const Statement begin{"BEGIN", {}};
    const Statement commit{"COMMIT", {}};
    try {
      co_await ask_version();
      co_await ask(false);
      if (can_read_locks(facts_)) co_await ask(true);
      if (facts_.listens) co_await try_to_notify();
      co_await measure(facts_, new_call().until, [this]() -> asio::awaitable<void> {
        Statement nothing{"SELECT 1", {}};
        co_await exchange(std::move(nothing));
      });
      // A pooler may end the session because of it.
      if (facts_.is_pooled) {
        facts_.transaction_failure = co_await failure_of(begin, commit);
      }
    } catch (const Failure& failure) {
      facts_.failure = let_pass(failure);
    }
  }

 private:
  Call new_call() const { return wakeup_.within(order_.timeout); }

  template <typename... Statements>
  asio::awaitable<std::vector<Result>> exchange(Statements... statements) {
    std::vector<Batch> batches;
    (batches.emplace_back(1, std::move(statements)), ...);
    return connection_.exchange(std::move(batches), new_call());
  }

  // Of one statement behind the other.
  asio::awaitable<std::optional<Failure>> failure_of(Statement first, Statement second) {
    try {
      co_await exchange(std::move(first), std::move(second));
    } catch (const Failure& failure) {
      co_return let_pass(failure);
    }
    co_return std::nullopt;
  }

  asio::awaitable<void> ask_version() {
    const Statement version{
        "SELECT pg_catalog.version(), "
        "pg_catalog.current_setting('server_version_num'), pg_catalog.pg_backend_pid(), "
        "current_user, pg_catalog.current_database(), " +
            std::string(clock_micros),
        {}};
    const auto before = wall_now();
    const auto replies = co_await exchange(version);
    const auto now = (before + wall_now()) / 2;
    const Answer said(replies.front().rows);
    const auto& session = connection_.server_facts();
    facts_.product = said.text(0);
    facts_.version = session.server_version;
    facts_.version_number = static_cast<int>(said.number(1));
    facts_.is_pooled = said.number(2) != session.pid;
    facts_.user = said.text(3);
    facts_.database = said.text(4);
    facts_.listens = can_listen(connection_.target().listening, facts_.is_pooled);
    const std::chrono::microseconds theirs(said.number(5));
    if (theirs.count() != 0) facts_.clock_ahead = theirs - now;
  }

  // Asks all at once.
  asio::awaitable<void> ask(bool about_locks) {
    std::vector<const char*> asked;
    std::vector<Batch> batches;
    for (const auto& check : all_checks) {
      const bool reads_locks = check.question.find("$LOCKS") != std::string_view::npos;
      if (check.question.empty() || reads_locks != about_locks) continue;
      asked.push_back(check.name);
      auto sql = replaced(std::string(check.question), "$COLUMNS", columns_in_sql());
      sql = replaced(std::move(sql), "$LOCKS", in_schema(facts_.schema, "lock"));
      batches.push_back(in_catalog(std::move(sql), facts_.schema));
      if (about_locks) batches.back().back().params.emplace_back(order_.name_space);
      for (auto& statement : batches.back()) statement.may_fail = true;
    }
    const auto results = co_await connection_.exchange(std::move(batches), new_call());
    std::size_t next = 0;
    for (const auto* check : asked) {
      // What follows a statement that was refused has no result.
      if (results.at(next++).tag.empty()) continue;
      facts_.answers[check] = results.at(next++).rows;
    }
  }

  asio::awaitable<void> try_to_notify() {
    const auto random = random_bytes();
    const auto channel = "dlock_doctor_" + hex(random.data(), 8);
    const Statement listen{"LISTEN " + channel, {}};
    const Statement notify{"SELECT pg_catalog.pg_notify($1, '')", {channel}};
    facts_.listen_failure = co_await failure_of(listen, notify);
    if (facts_.listen_failure) co_return;
    try {
      const auto came = co_await connection_.notification(new_call());
      facts_.was_notified = came.has_value();
    } catch (const Failure& failure) {
      facts_.listen_failure = let_pass(failure);
    }
  }

  PgFacts& facts_;
  PgConnection& connection_;
  const ExaminationOrder& order_;
  Wakeup& wakeup_;
};

void note_primary(PgFacts& facts) {
  std::vector<std::optional<PgStanding>> standings;
  std::vector<std::string> servers;
  for (const auto& host : facts.hosts) {
    standings.push_back(host.failure ? std::nullopt : std::optional(host.standing));
    servers.push_back(host.server);
  }
  auto choice = chosen_primary(standings, servers);
  facts.primary = choice.server;
  facts.complaint = std::move(choice.complaint);
  if (!facts.primary) return;
  const auto& primary = facts.hosts[*facts.primary];
  // Of a renewal that has to connect: the read rides behind the login.
  facts.trips_to_renew =
      3 + (primary.is_encrypted ? 3 : 0) + (primary.login.empty() ? 0 : 2);
  facts.standby_names = primary.standing.standby_names;
  facts.too_few_standbys =
      too_few_standbys(facts.replicas, facts.standby_names, primary.standing.standbys);
}

}  // namespace

std::vector<Finding> findings_of(const PgFacts& facts) {
  return judged(all_checks, facts);
}

asio::awaitable<Examination> examine(const ExaminationOrder& order,
                                     asio::io_context& context, Wakeup& wakeup) {
  const auto targets = targets_of(order.url);
  const auto ask_one = [loop = &context, targets, timeout = order.timeout](
                           std::size_t number, Wakeup& own) {
    return ask_host(*loop, targets[number], timeout, own);
  };
  PgFacts facts;
  facts.hosts = co_await ask_all<HostFacts>(context, targets.size(), ask_one, wakeup);
  facts.user = targets.front().user;
  facts.database = targets.front().database;
  facts.schema = targets.front().schema;
  facts.schema_command = schema_command(targets.front());
  facts.store_timeout = order.store_timeout;
  facts.replicas = order.url.replicas;
  note_primary(facts);
  if (facts.primary) {
    PrimaryExaminer examiner(facts, order, wakeup);
    co_await examiner.examine();
  }
  co_return examination_of(findings_of(facts), {facts});
}

}  // namespace dlock::postgres
