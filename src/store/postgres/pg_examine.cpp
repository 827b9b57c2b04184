#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/checks.hpp"
#include "store/fan_out.hpp"
#include "store/postgres/pg_connection.hpp"
#include "store/postgres/pg_health.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_standing.hpp"
#include "store/postgres/pg_store.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_trust.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr int round_trips_measured = 20;

// A server with the connection on which it answered.
struct Host {
  HostFacts facts;
  PgStanding standing;
  std::shared_ptr<PgConnection> connection;
};

// The text of a column; empty if it is NULL or missing.
std::string text_in(const std::vector<Row>& rows, std::size_t column,
                    std::size_t row = 0) {
  if (row >= rows.size() || column >= rows[row].size()) return "";
  return rows[row][column].value_or("");
}
std::optional<std::int64_t> number_at(const std::vector<Row>& rows, std::size_t column,
                                      std::size_t row = 0) {
  return number_in<std::int64_t>(text_in(rows, column, row));
}
bool flag_at(const std::vector<Row>& rows, std::size_t column, std::size_t row = 0) {
  return text_in(rows, column, row) == "t";
}

class Questions {
 public:
  Questions(PgConnection& connection, milliseconds timeout, Wakeup& wakeup)
      : connection_(connection), timeout_(timeout), wakeup_(wakeup) {}

  Call new_call() const { return wakeup_.within(timeout_); }

  // Throws Failure; SqlError if the server refuses the statement.
  asio::awaitable<std::vector<Row>> must_answer(Statement statement) {
    co_return co_await must_answer(Batch(1, std::move(statement)));
  }
  asio::awaitable<std::vector<Row>> must_answer(Batch batch) {
    std::vector<Batch> batches(1, std::move(batch));
    auto results = co_await connection_.exchange(std::move(batches), new_call());
    co_return std::move(results.back().rows);
  }

  // No rows if the server refuses the statement, as other products may.
  asio::awaitable<std::vector<Row>> ask(Statement statement) {
    co_return co_await ask(Batch(1, std::move(statement)));
  }
  // Of the last statement.
  asio::awaitable<std::vector<Row>> ask(Batch batch) {
    try {
      co_return co_await must_answer(std::move(batch));
    } catch (const SqlError&) {
      co_return std::vector<Row>{};
    }
  }

 private:
  PgConnection& connection_;
  milliseconds timeout_;
  Wakeup& wakeup_;
};

bool is_this_machine(const PgTarget& target) {
  return !target.path.empty() || target.host == "localhost" || target.host == "::1" ||
         target.host.starts_with("127.");
}

std::string shown_method(const std::string& method) {
  if (method.starts_with("scram")) return "SCRAM-SHA-256";
  if (method == "md5") return "MD5";
  return method == "trust" ? "" : method;
}

void note_session(const PgConnection& connection, HostFacts& facts) {
  const auto& session = connection.session();
  facts.is_local = is_this_machine(connection.target());
  facts.is_encrypted = session.is_encrypted;
  if (session.is_proven && connection.target().path.empty()) {
    facts.proof = session.method.ends_with("-plus") ? "channel binding with the password"
                                                    : "its certificate";
  }
  facts.login = shown_method(session.method);
}

asio::awaitable<Host> ask_host(asio::io_context& context, PgTarget target,
                               milliseconds timeout, Wakeup& wakeup) {
  Host host;
  host.facts.server = target.shown();
  if (target.application_name.empty()) target.application_name = "dlock doctor";
  target.wants_to_know = true;
  host.connection = std::make_shared<PgConnection>(context, std::move(target));
  try {
    co_await host.connection->open(wakeup.within(timeout));
    note_session(*host.connection, host.facts);
    Questions questions(*host.connection, timeout, wakeup);
    Result reply;
    reply.rows = co_await questions.ask(standing_question(true));
    // Another product may not know what that asks for.
    host.standing = standing_from(reply).value_or(PgStanding());
    host.facts.is_standby = host.standing.is_standby;
  } catch (const Failure& failure) {
    host.facts.failure = let_pass(failure);
  }
  co_return host;
}

class PrimaryExaminer {
 public:
  PrimaryExaminer(PgFacts& facts, PgConnection& connection, std::string name_space,
                  Wakeup& wakeup)
      : facts_(facts),
        connection_(connection),
        questions_(connection, facts.timeout, wakeup),
        name_space_(std::move(name_space)),
        wakeup_(wakeup) {}

  asio::awaitable<void> examine() {
    try {
      co_await ask_version();
      co_await ask_schema();
      co_await ask_settings();
      co_await ask_sessions();
      co_await try_to_notify();
      co_await measure();
    } catch (const Failure& failure) {
      facts_.failure = let_pass(failure);
    }
  }

 private:
  asio::awaitable<void> ask_version() {
    Statement version{
        "SELECT pg_catalog.version(), "
        "pg_catalog.current_setting('server_version_num'), pg_catalog.pg_backend_pid(), "
        "current_user, pg_catalog.current_database(), " +
            std::string(clock_micros),
        {}};
    const auto before = wall_now();
    const auto rows = co_await questions_.must_answer(std::move(version));
    if (const auto said = number_at(rows, 5)) {
      facts_.clock_ahead = std::chrono::microseconds(*said) - (before + wall_now()) / 2;
    }
    facts_.product = text_in(rows, 0);
    facts_.version = connection_.session().server_version;
    facts_.version_number = static_cast<int>(number_at(rows, 1).value_or(0));
    facts_.is_pooled = number_at(rows, 2) != connection_.session().pid;
    facts_.user = text_in(rows, 3);
    facts_.database = text_in(rows, 4);
    facts_.listens = can_listen(connection_.target().listening, facts_.is_pooled);
  }

  asio::awaitable<void> ask_schema() {
    const std::vector<std::optional<std::string>> schema{facts_.schema};
    Statement rights{
        "SELECT n.oid IS NOT NULL, pg_catalog.has_schema_privilege(n.oid, 'USAGE'), "
        "CASE WHEN n.oid IS NULL THEN pg_catalog.has_database_privilege("
        "pg_catalog.current_database(), 'CREATE') "
        "ELSE pg_catalog.has_schema_privilege(n.oid, 'CREATE') END, "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.pronamespace "
        "OPERATOR(pg_catalog.=) n.oid AND p.proname OPERATOR(pg_catalog.=) 'admit') "
        "FROM (SELECT 1) one LEFT JOIN pg_catalog.pg_namespace n "
        "ON n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name",
        schema};
    const auto rows = co_await questions_.ask(std::move(rights));
    facts_.has_schema = flag_at(rows, 0);
    facts_.may_use_schema = flag_at(rows, 1);
    facts_.may_create = flag_at(rows, 2);
    facts_.has_admit = flag_at(rows, 3);
    co_await ask_tables();
    co_await ask_strangers();
    if (!facts_.distrusted.empty()) co_return;
    const auto locks =
        std::find_if(facts_.tables.begin(), facts_.tables.end(),
                     [](const TableFacts& table) { return table.name == "lock"; });
    if (!facts_.may_use_schema || locks == facts_.tables.end() || !locks->exists ||
        !locks->missing_columns.empty() || !locks->missing_rights.empty()) {
      co_return;
    }
    // The fence is the first member of a state; one that is damaged has none.
    Statement summary{
        "SELECT pg_catalog.max(l.format), pg_catalog.max(f.fence), "
        "(pg_catalog.array_agg(l.name ORDER BY f.fence DESC NULLS LAST))[1] "
        "FROM " +
            in_schema(facts_.schema, "lock") +
            " l, LATERAL (SELECT pg_catalog.substring(l.state, "
            "'^{\"fence\":([0-9]{1,18}),')::pg_catalog.int8) f(fence) "
            "WHERE l.namespace OPERATOR(pg_catalog.=) $1",
        {name_space_}};
    const auto rows_of_locks = co_await questions_.ask(std::move(summary));
    facts_.format = number_at(rows_of_locks, 0);
    facts_.greatest_fence = number_at(rows_of_locks, 1);
    facts_.greatest_fence_of = text_in(rows_of_locks, 2);
  }

  asio::awaitable<void> ask_strangers() {
    if (!facts_.has_schema) co_return;
    Result answer;
    answer.rows = co_await questions_.ask(trust_question(facts_.schema));
    facts_.distrusted = distrust_from(answer, facts_.schema);
    const auto found = co_await questions_.ask(stranger_question(facts_.schema));
    for (std::size_t row = 0; row < found.size(); ++row) {
      facts_.strangers.push_back(printable(text_in(found, 0, row), 100));
    }
  }

  asio::awaitable<void> ask_tables() {
    Statement columns{
        "SELECT c.relname, a.attname, "
        "pg_catalog.has_table_privilege(c.oid, 'SELECT'), "
        "pg_catalog.has_table_privilege(c.oid, 'INSERT'), "
        "pg_catalog.has_table_privilege(c.oid, 'UPDATE'), "
        "pg_catalog.has_table_privilege(c.oid, 'DELETE'), "
        "pg_catalog.row_security_active(c.oid) "
        "FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c "
        "ON c.relnamespace OPERATOR(pg_catalog.=) n.oid "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid "
        "WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name "
        "AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog.\"char\"[]) AND "
        "a.attnum OPERATOR(pg_catalog.>) 0 "
        "AND NOT a.attisdropped",
        {facts_.schema}};
    const auto rows = co_await questions_.ask(std::move(columns));
    constexpr const char* rights[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};
    for (const auto& needed : schema_tables) {
      TableFacts table;
      table.name = needed.name;
      table.missing_columns = columns_of(needed);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (text_in(rows, 0, row) != table.name) continue;
        std::erase(table.missing_columns, text_in(rows, 1, row));
        if (std::exchange(table.exists, true)) continue;
        for (std::size_t i = 0; i < std::size(rights); ++i) {
          if (!flag_at(rows, 2 + i, row)) table.missing_rights.emplace_back(rights[i]);
        }
        table.hides_rows = flag_at(rows, 2 + std::size(rights), row);
      }
      if (!table.exists) table.missing_columns.clear();
      facts_.tables.push_back(std::move(table));
    }
  }

  asio::awaitable<void> ask_settings() {
    Statement settings{
        "SELECT s.name, s.setting FROM pg_catalog.pg_settings s WHERE s.name "
        "OPERATOR(pg_catalog.=) ANY ('{fsync,full_page_writes,synchronous_standby_names,"
        "statement_timeout,transaction_timeout,idle_session_timeout}'"
        "::pg_catalog.text[])",
        {}};
    const auto rows = co_await questions_.ask(std::move(settings));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto name = text_in(rows, 0, row);
      const auto value = text_in(rows, 1, row);
      if (name == "fsync") facts_.fsync = value == "on";
      if (name == "full_page_writes") facts_.full_page_writes = value == "on";
      if (name == "synchronous_standby_names") facts_.standby_names = value;
      if (!name.ends_with("_timeout")) continue;
      const auto limit = number_in<std::int64_t>(value).value_or(0);
      facts_.timeouts.push_back({name, milliseconds(limit)});
    }
  }

  asio::awaitable<void> ask_sessions() {
    Statement sessions{
        "SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE "
        "a.application_name OPERATOR(pg_catalog.~~) 'dlock%'), "
        "pg_catalog.date_part('epoch', pg_catalog.max(pg_catalog.age("
        "pg_catalog.clock_timestamp(), a.xact_start)) FILTER (WHERE a.backend_xmin IS "
        "NOT NULL))::pg_catalog.int8, "
        "pg_catalog.max(pg_catalog.age(a.backend_xmin)), "
        "pg_catalog.count(*) FILTER (WHERE a.datname OPERATOR(pg_catalog.=) "
        "pg_catalog.current_database()), "
        "pg_catalog.count(*) FILTER (WHERE a.usename OPERATOR(pg_catalog.=) "
        "current_user) "
        "FROM pg_catalog.pg_stat_activity a "
        "WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL",
        {}};
    const auto rows = co_await questions_.ask(std::move(sessions));
    auto& now = facts_.sessions;
    now.used = number_at(rows, 0).value_or(0);
    now.dlock = number_at(rows, 1).value_or(0);
    if (const auto age = number_at(rows, 2)) {
      facts_.oldest_snapshot = std::chrono::seconds(*age);
    }
    facts_.oldest_snapshot_age = number_at(rows, 3);
    Statement limits{
        "SELECT pg_catalog.current_setting('max_connections')::pg_catalog.int8 "
        "OPERATOR(pg_catalog.-) pg_catalog.current_setting("
        "'superuser_reserved_connections')::pg_catalog.int8, d.datconnlimit, "
        "r.rolconnlimit FROM pg_catalog.pg_database d, pg_catalog.pg_roles r "
        "WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() "
        "AND r.rolname OPERATOR(pg_catalog.=) current_user",
        {}};
    const auto limit = co_await questions_.ask(std::move(limits));
    const auto in_database = number_at(rows, 4).value_or(0);
    const auto of_user = number_at(rows, 5).value_or(0);
    note_limit(number_at(limit, 0), now.used, "max_connections for users");
    note_limit(number_at(limit, 1), in_database, "the limit of the database");
    note_limit(number_at(limit, 2), of_user, "the limit of the role");
  }

  // Keeps the limit that is nearest.
  void note_limit(std::optional<std::int64_t> limit, std::int64_t used,
                  const char* name) {
    auto& now = facts_.sessions;
    if (!limit || *limit < 0) return;
    if (now.limit && *now.limit - now.used <= *limit - used) return;
    now.limit = limit;
    now.used = used;
    now.limited_by = name;
  }

  asio::awaitable<void> try_to_notify() {
    if (!facts_.listens) co_return;
    const auto random = random_bytes();
    const auto channel = "dlock_doctor_" + hex(random.data(), 8);
    std::vector<Batch> batches(2);
    batches[0].push_back({"LISTEN " + channel, {}});
    batches[1].push_back({"SELECT pg_catalog.pg_notify($1, '')", {channel}});
    try {
      co_await connection_.exchange(std::move(batches), questions_.new_call());
      const auto came = co_await connection_.notification(questions_.new_call());
      facts_.was_notified = came.has_value();
    } catch (const Failure& failure) {
      facts_.listen_failure = let_pass(failure);
    }
  }

  asio::awaitable<void> measure() {
    const auto call = questions_.new_call();
    for (int i = 0; i < round_trips_measured && !call.is_over(); ++i) {
      Statement nothing{"SELECT 1", {}};
      const auto began = Clock::now();
      co_await questions_.must_answer(std::move(nothing));
      facts_.round_trips.emplace_back(Clock::now() - began);
    }
  }

  PgFacts& facts_;
  PgConnection& connection_;
  Questions questions_;
  std::string name_space_;
  Wakeup& wakeup_;
};

void note_primary(const std::vector<Host>& hosts, PgFacts& facts) {
  std::vector<std::optional<PgStanding>> standings;
  std::vector<std::string> servers;
  for (const auto& host : hosts) {
    standings.push_back(host.facts.failure ? std::nullopt : std::optional(host.standing));
    servers.push_back(host.facts.server);
  }
  auto choice = chosen_primary(standings, servers);
  facts.primary = choice.server;
  facts.complaint = std::move(choice.complaint);
}

// Of a renewal that has to connect: the read rides behind the login.
int trips_to_renew(const HostFacts& host) {
  constexpr int connect_read_and_write = 3;
  constexpr int tls = 3;
  constexpr int scram = 2;
  return connect_read_and_write + (host.is_encrypted ? tls : 0) +
         (host.login.empty() ? 0 : scram);
}

}  // namespace

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  const auto targets = targets_of(url);
  auto* const loop = &context;
  const auto ask_one = [loop, targets, timeout](std::size_t number, Wakeup& own) {
    return ask_host(*loop, targets[number], timeout, own);
  };
  const auto hosts = co_await ask_all<Host>(context, targets.size(), ask_one, wakeup);
  PgFacts facts;
  facts.user = targets.front().user;
  facts.database = targets.front().database;
  facts.schema = targets.front().schema;
  facts.schema_command = schema_command(targets.front());
  facts.timeout = timeout;
  facts.replicas = url.replicas;
  for (const auto& host : hosts) facts.hosts.push_back(host.facts);
  note_primary(hosts, facts);
  if (facts.primary) {
    const auto& primary = hosts[*facts.primary];
    facts.trips_to_renew = trips_to_renew(primary.facts);
    facts.too_few_standbys = too_few_standbys(
        url.replicas, primary.standing.standby_names, primary.standing.standbys);
    PrimaryExaminer examiner(facts, *primary.connection, name_space, wakeup);
    co_await examiner.examine();
  }
  co_return examination_of(findings_of(facts), median_of(facts.round_trips),
                           facts.trips_to_renew);
}

}  // namespace dlock::postgres
