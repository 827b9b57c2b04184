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

// Empty if it is NULL or missing.
std::string value_at(const Row& row, std::size_t column) {
  return column < row.size() ? row[column].value_or("") : "";
}

bool has_schema(const PgFacts& facts) { return facts.said("schema", 0) == "t"; }

std::vector<Distrust> distrusted_by(const PgFacts& facts) {
  return distrust_from(facts.rows("owner"), facts.schema);
}

// Says the first reason not to use the schema, as it is: because of its owner or of
// hidden rows, or that it is a copy. Whether there is one.
bool say_distrust(const PgFacts& facts, Failure::Kind kind, bool is_copy,
                  CheckReport& say) {
  for (const auto& one : distrusted_by(facts)) {
    if (one.kind != kind || one.is_copy != is_copy) continue;
    say.level(is_copy ? Finding::Level::warning : Finding::Level::error, one.what,
              one.advice);
    return true;
  }
  return false;
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
    return judge_refusal(*facts.hosts.front().failure, say,
                         "; also PGPASSWORD, ~/.pgpass, and pg_hba.conf on the server");
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
    return say.error("only standbys: " + listed(standbys) + "; a standby grants no locks",
                     "name the primary in the store URL, or all servers");
  }
  if (!facts.complaint.empty()) return say.warning(facts.complaint);
  if (facts.hosts.size() == 1) return say.ok("a primary");
  say.ok(
      facts.hosts[*facts.primary].server + " is the primary" +
      (standbys.empty() ? "" : "; " + std::to_string(standbys.size()) + " on standby"));
}

void version(const PgFacts& facts, CheckReport& say) {
  if (facts.said("version", 0).find("-YB-") != std::string::npos) {
    return say.warning("YugabyteDB: dlock is not tested there, and promises nothing",
                       "use a PostgreSQL server for locks");
  }
  constexpr int oldest = static_cast<int>(oldest_major_version);
  judge_version("PostgreSQL " + printable(facts.version, 60),
                version_in(facts.version) < Version{oldest},
                "PostgreSQL " + std::to_string(oldest) + " or later", say);
}

void work(const PgFacts& facts, CheckReport& say) {
  if (facts.failure) judge_work(facts.failure->what(), say);
}

void schema(const PgFacts& facts, CheckReport& say) {
  const auto name = "schema " + facts.schema;
  const auto missing = facts.said("permissions", 0);
  const auto strange = facts.said("permissions", 1);
  if (!strange.empty()) {
    return say.error(name + " has a table " + strange + ": not made by this dlock",
                     "use another schema (?dlock_schema=NAME in the URL), or let a newer "
                     "dlock add what is missing");
  }
  const auto format = facts.number("fences", 0);
  if (format > record::greatest_state_format) {
    return say.error(
        joined(name, " has locks that a newer dlock has written (format ", format, ")"),
        "upgrade dlock");
  }
  if (has_schema(facts) && missing.empty()) return say.ok(name);
  const auto lacks = has_schema(facts) ? name + " lacks " + missing
                                       : "there is no " + name + " in the database " +
                                             shown(facts.database);
  const bool may_create = facts.said("schema", 2) == "t";
  if (may_create) return say.info(lacks + "; dlock creates it on first use");
  say.error(lacks + ", and user " + shown(facts.user) + " may not create it",
            facts.schema_command);
}

void permissions(const PgFacts& facts, CheckReport& say) {
  if (!has_schema(facts)) {
    return say.not_checked("there is no schema " + facts.schema + " yet");
  }
  if (say_distrust(facts, Failure::Kind::rejected, false, say)) return;
  const auto missing = facts.said("permissions", 2);
  auto lacks = missing.empty() ? "" : "lacks " + missing;
  const bool may_use = facts.said("schema", 1) == "t";
  if (!may_use) lacks = "may not use the schema " + facts.schema;
  judge_permissions(shown(facts.user), lacks, facts.schema_command, say);
}

// The first owner that is not trusted: most often it owns the rest as well.
void owner(const PgFacts& facts, CheckReport& say) {
  say_distrust(facts, Failure::Kind::misconfigured, false, say);
}

void copy(const PgFacts& facts, CheckReport& say) {
  say_distrust(facts, Failure::Kind::rejected, true, say);
}

void strangers(const PgFacts& facts, CheckReport& say) {
  std::vector<std::string> found;
  for (const auto& row : facts.rows("strangers")) {
    found.push_back(printable(value_at(row, 0), 100));
  }
  if (found.empty()) return;
  say.warning("not made by dlock, in or on its schema " + facts.schema + ": " +
                  listed(found) +
                  ": such things can run code in each step, or change what it writes",
              "drop what you do not know");
}

void admit(const PgFacts& facts, CheckReport& say) {
  if (!has_schema(facts) || facts.said("admit", 0) == "t") return;
  say.info("there is no function " + facts.schema +
               ".admit, with which applications check fences in their own transactions",
           facts.schema_command);
}

void fences(const PgFacts& facts, CheckReport& say) {
  const auto now = wall_now() + facts.clock_ahead.value_or(std::chrono::microseconds(0));
  const auto fence = static_cast<std::uint64_t>(facts.number("fences", 1));
  if (fence <= greatest_plausible_fence(now, {}).number) return;
  judge_fences({{"the lock " + facts.said("fences", 2), std::to_string(fence)}}, say);
}

void pooler(const PgFacts& facts, CheckReport& say) {
  if (!facts.is_pooled) return say.ok("none");
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
  if (facts.deaf.empty()) return say.ok("they arrive");
  say.warning(facts.deaf + ": waiters notice a release late, and holders dlock break",
              "connect to the server itself, or add listen=off to the URL");
}

void persistence(const PgFacts& facts, CheckReport& say) {
  if (facts.number("persistence", 0) < 2)
    return say.not_checked("the server does not report fsync");
  const auto off = facts.said("persistence", 1);
  if (off.empty()) return say.ok("fsync is on");
  say.error(
      off + " off: a crash of the machine can lose every lock, or damage the database",
      "set it to on in postgresql.conf, and reload");
}

void replicas(const PgFacts& facts, CheckReport& say) {
  const auto& standing = facts.hosts[*facts.primary].standing;
  const auto names = "synchronous_standby_names is " + shown(standing.standby_names);
  const auto too_few =
      too_few_standbys(facts.replicas, standing.standby_names, standing.followers);
  if (too_few) {
    return say.error(*too_few,
                     "set synchronous_standby_names on the server, or lower --replicas");
  }
  const auto connected = standing.followers.value_or(std::vector<PgFollower>());
  const auto awaited =
      awaited_standbys(standing.standby_names).value_or(AwaitedStandbys());
  const auto there = std::ranges::count_if(connected, [&](const PgFollower& one) {
    return awaited.may_be_any || std::ranges::count(awaited.names, one.name) > 0;
  });
  if (standing.followers && there < awaited.count) {
    return say.error(joined("every commit hangs: of the standbys that it waits for, ",
                            there, there == 1 ? " is" : " are", " connected; ", names),
                     "start them, or name those that are connected "
                     "(application_name in primary_conninfo)");
  }
  if (facts.replicas.all || facts.replicas.count > 0) {
    const bool is_unknown = std::ranges::any_of(connected, [](const PgFollower& one) {
      return one.kind == PgFollower::Kind::unknown;
    });
    if (!is_unknown) return say.ok("commits wait for standbys: " + names);
    return say.warning(names + ", and user " + shown(facts.user) +
                           " may not see whether these are standbys or archivers "
                           "(pg_receivewal), which cannot be promoted",
                       "GRANT pg_monitor TO " + shown(facts.user));
  }
  if (standing.standby_names.empty()) {
    const auto standbys = std::ranges::count_if(connected, [](const PgFollower& one) {
      return one.kind != PgFollower::Kind::other;
    });
    if (standbys == 0) return say.ok("not asked for (--replicas)");
    return say.warning(joined(standbys, standbys == 1 ? " standby is" : " standbys are",
                              " connected, and commits wait for none: after a promotion "
                              "two commands can run at once"),
                       "set synchronous_standby_names, and --replicas 1 or all");
  }
  say.info(names + ", and --replicas is not set: dlock does not check that it stays so",
           "--replicas 1, or all");
}

void timeouts(const PgFacts& facts, CheckReport& say) {
  std::vector<std::string> shorter;
  for (const auto& row : facts.rows("timeouts")) {
    const milliseconds limit(number_at(row, 1).value_or(0));
    if (limit.count() == 0 || limit >= facts.store_timeout) continue;
    shorter.push_back(printable(value_at(row, 0), 40) + " = " + for_people(limit));
  }
  if (shorter.empty()) return;
  say.warning("user " + shown(facts.user) + " has " + listed(shorter) +
                  ", less than --store-timeout (" + for_people(facts.store_timeout) +
                  "): the server ends steps that could still succeed",
              "raise it for this role (ALTER ROLE ... SET), or lower --store-timeout");
}

// Of the limits, the one that is nearest.
void sessions(const PgFacts& facts, CheckReport& say) {
  const auto of_dlock = facts.number("sessions", 0);
  const auto used = facts.number("sessions", 1);
  const auto limit = facts.number("sessions", 2);
  const bool is_limited = !facts.said("sessions", 2).empty();
  const auto message =
      joined(counted(used, "session"), ", ", of_dlock, " of them dlock's",
             is_limited ? joined("; ", facts.said("sessions", 3), " is ", limit) : "");
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
  constexpr auto old = std::chrono::hours(1);
  constexpr std::int64_t many_transactions = 1'000'000;
  const std::chrono::seconds age(facts.number("snapshots", 0));
  const auto transactions = facts.number("snapshots", 1);
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
// their columns, $LOCKS is the table of locks, and $1 the namespace.
const Check<PgFacts> all_checks[] = {
    {"reachable", reachable, "", true},
    {"login", login, "", true},
    {"tls", tls},
    {"role", role, "", true},
    {"work", work, "", true},
    {"version", version,
     "SELECT version(), pg_backend_pid(), current_user, current_database(), "
     "(date_part('epoch', clock_timestamp()) * 1000000)::int8"},
    // Whether it exists, can be used, and what it lacks can be created.
    {"schema", schema,
     "SELECT n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), CASE WHEN n.oid IS "
     "NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE "
     "has_schema_privilege(n.oid, 'CREATE') END FROM (SELECT 1) one LEFT JOIN "
     "pg_namespace n ON n.nspname = $SCHEMA"},
    // The tables that are missing, one that lacks a column, and the rights that the user
    // lacks.
    {"permissions", permissions,
     "SELECT string_agg(o.name, ', ' ORDER BY o.at) FILTER (WHERE o.oid IS NULL), "
     "min(o.name || ' without the column ' || o.lacks), string_agg(o.rights || ' on ' || "
     "o.name, ', ' ORDER BY o.at) FROM (SELECT t.at, t.name, c.oid, (SELECT w.name FROM "
     "unnest(t.columns) WITH ORDINALITY w(name, at) WHERE c.oid IS NOT NULL AND NOT "
     "EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = "
     "w.name AND a.attnum > 0 AND NOT a.attisdropped) ORDER BY w.at LIMIT 1), (SELECT "
     "string_agg(r.name, ', ' ORDER BY r.at) FROM unnest(ARRAY['SELECT', 'INSERT', "
     "'UPDATE', 'DELETE']) WITH ORDINALITY r(name, at) WHERE NOT "
     "has_table_privilege(c.oid, r.name)) FROM (VALUES $COLUMNS) t(at, name, columns) "
     "LEFT JOIN (pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND n.nspname "
     "= $SCHEMA AND c.relkind IN ('r', 'p')) ON c.relname = t.name) o(at, name, oid, "
     "lacks, rights)"},
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
                     "', '{", table.columns(), "}'::name[])");
  }
  return values;
}

std::string shown_method(const std::string& method) {
  if (method.starts_with("scram")) return "SCRAM-SHA-256";
  if (method == "md5") return "MD5";
  return method == "trust" ? "" : method;
}

asio::awaitable<HostFacts> ask_host(const ExaminationOrder& order, PgTarget target,
                                    Wakeup& wakeup) {
  HostFacts host;
  host.server = target.shown();
  host.is_local = !target.path.empty() || target.host == "localhost" ||
                  target.host == "::1" || target.host.starts_with("127.");
  const bool is_remote = target.path.empty();
  if (target.application_name.empty()) target.application_name = "dlock doctor";
  target.wants_to_know = true;
  host.connection = std::make_shared<PgConnection>(order.context, std::move(target));
  try {
    co_await host.connection->open(wakeup.within(order.timeout));
    const auto& session = host.connection->server_facts();
    host.is_encrypted = session.is_encrypted;
    host.login = shown_method(session.method);
    if (session.is_proven && is_remote) {
      host.proof = session.method.ends_with("-plus") ? "channel binding with the password"
                                                     : "its certificate";
    }
    std::vector<Batch> question(1, Batch(1, standing_question(true)));
    const auto replies = co_await host.connection->exchange(std::move(question),
                                                            wakeup.within(order.timeout));
    // Another product may not know what that asks for.
    host.standing = standing_from(replies.front()).value_or(PgStanding());
  } catch (const Failure& failure) {
    host.failure = let_pass(failure);
  }
  co_return host;
}

struct PrimaryExaminer {
  PgFacts& facts;
  const ExaminationOrder& order;
  PgConnection& connection = *facts.hosts[*facts.primary].connection;

  asio::awaitable<void> examine() {
    try {
      const auto before = wall_now();
      co_await ask();
      note_session((before + wall_now()) / 2);
      if (facts.listens) co_await try_to_notify();
      co_await measure(facts, new_call().until, [this]() -> asio::awaitable<void> {
        Statement nothing{"SELECT 1", {}};
        co_await exchange(std::move(nothing));
      });
      // A pooler may end the session because of it.
      const Statement begin{"BEGIN", {}};
      const Statement commit{"COMMIT", {}};
      if (facts.is_pooled) co_await exchange(begin, commit);
    } catch (const Failure& failure) {
      facts.failure = let_pass(failure);
    }
  }

  Call new_call() const { return order.wakeup.within(order.timeout); }

  template <typename... Statements>
  asio::awaitable<void> exchange(Statements... statements) {
    std::vector<Batch> batches;
    (batches.emplace_back(1, std::move(statements)), ...);
    co_await connection.exchange(std::move(batches), new_call());
  }

  // What the server has said of itself at that time by our clock.
  void note_session(WallTime now) {
    const auto& session = connection.server_facts();
    facts.version = session.server_version;
    if (facts.rows("version").empty()) return;
    facts.is_pooled = facts.number("version", 1) != session.pid;
    facts.user = facts.said("version", 2);
    facts.database = facts.said("version", 3);
    facts.listens = can_listen(connection.target().listening, facts.is_pooled);
    const std::chrono::microseconds theirs(facts.number("version", 4));
    if (theirs.count() != 0) facts.clock_ahead = theirs - now;
  }

  // Asks all at once. What reads tables is only executed if no code of others can be.
  asio::awaitable<void> ask() {
    std::vector<const char*> asked;
    std::vector<Batch> batches;
    for (const auto& check : all_checks) {
      if (check.question.empty()) continue;
      asked.push_back(check.name);
      auto sql = replaced(std::string(check.question), "$COLUMNS", columns_in_sql());
      sql = replaced(std::move(sql), "$LOCKS", in_schema(facts.schema, "lock"));
      const bool has_parameter = sql.find("$1") != std::string::npos;
      batches.push_back(in_catalog(std::move(sql), facts.schema));
      if (has_parameter) batches.back().back().params.emplace_back(order.name_space);
    }
    guard(batches, facts.schema);
    for (auto& batch : batches) {
      for (auto& statement : batch) statement.may_fail = true;
    }
    const auto results = co_await connection.exchange(std::move(batches), new_call());
    std::size_t next = 0;
    for (const auto* check : asked) {
      // What follows a statement that was refused has no result.
      if (results.at(next++).tag.empty()) continue;
      facts.answers[check] = results.at(next++).rows;
    }
  }

  asio::awaitable<void> try_to_notify() {
    const auto random = random_bytes();
    const auto channel = "dlock_doctor_" + hex(random.data(), 8);
    const Statement listen{"LISTEN " + channel, {}};
    const Statement notify{"SELECT pg.pg_notify($1, '')", {channel}};
    facts.deaf = "a notification was sent and did not arrive";
    try {
      co_await exchange(listen, notify);
      const auto came = co_await connection.notification(new_call());
      if (came) facts.deaf.clear();
    } catch (const Failure& failure) {
      facts.deaf = let_pass(failure).what();
    }
  }
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
}

}  // namespace

std::vector<Row> PgFacts::rows(std::string_view check) const {
  const auto found = answers.find(check);
  return found == answers.end() ? std::vector<Row>() : found->second;
}

std::string PgFacts::said(std::string_view check, std::size_t column) const {
  const auto all = rows(check);
  return all.empty() ? "" : value_at(all.front(), column);
}

std::int64_t PgFacts::number(std::string_view check, std::size_t column) const {
  return number_in<std::int64_t>(said(check, column)).value_or(0);
}

Examination examination_of(const PgFacts& facts) { return judged(all_checks, facts); }

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  const auto targets = targets_of(order.url);
  const auto ask_one = [order, targets](std::size_t number, Wakeup& own) {
    return ask_host(order, targets[number], own);
  };
  PgFacts facts;
  facts.hosts =
      co_await ask_all<HostFacts>(order.context, targets.size(), ask_one, order.wakeup);
  facts.user = targets.front().user;
  facts.database = targets.front().database;
  facts.schema = targets.front().schema;
  facts.schema_command = schema_command(targets.front());
  facts.store_timeout = order.store_timeout;
  facts.replicas = order.url.replicas;
  note_primary(facts);
  if (facts.primary) {
    PrimaryExaminer examiner{facts, order};
    co_await examiner.examine();
  }
  co_return examination_of(facts);
}

}  // namespace dlock::postgres
