#include "store/postgres/pg_schema.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <utility>

#include "rules/state.hpp"
#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// An upgrade of the C library changes the order of other collations, and damages an index
// in it silently: then one lock could have two rows, and two holders.
constexpr std::string_view key = "text COLLATE \"C\" NOT NULL";

// For the advisory lock behind which the schema is made: any number that is ours alone.
// Without it several first users would make the same table at once, and all but one fail.
constexpr std::string_view schema_lock = "7164193208544829537";

// KEY and SCHEMA stand for themselves, and MADE(made) for the name that
// made_in_database() says.
constexpr const char* makings[] = {
    // Only the key has an index, so that an update needs no new entries in one.
    "CREATE TABLE IF NOT EXISTS SCHEMA.lock (namespace KEY, name KEY, version bigint NOT "
    "NULL, format smallint NOT NULL, state text NOT NULL, runs text NOT NULL, refused "
    "bigint NOT NULL DEFAULT 0, due timestamptz, keep_until timestamptz NOT NULL, "
    "PRIMARY "
    "KEY (namespace, name)) WITH (fillfactor = 70)",
    // A dump has the name of the key too, so a copy is known by it (pg_trust).
    "DO $made$ DECLARE made oid := 'SCHEMA.lock'::pg.regclass; BEGIN IF "
    "pg.to_regclass('SCHEMA.lock_pkey') IS NOT NULL AND pg.pg_has_role((SELECT "
    "c.relowner FROM pg.pg_class c WHERE c.oid = made), 'USAGE') THEN EXECUTE 'ALTER "
    "INDEX SCHEMA.lock_pkey RENAME TO ' OP(||) MADE(made); END IF; END $made$",
    "CREATE TABLE IF NOT EXISTS SCHEMA.fence (namespace KEY, resource KEY, greatest "
    "bigint "
    "NOT NULL, PRIMARY KEY (namespace, resource)) WITH (fillfactor = 70)",
    "CREATE TABLE IF NOT EXISTS SCHEMA.rate (namespace KEY, name KEY, version bigint NOT "
    "NULL, format smallint NOT NULL, state text NOT NULL, keep_until timestamptz NOT "
    "NULL, "
    "PRIMARY KEY (namespace, name)) WITH (fillfactor = 70)",
    // A limit may have ten thousand admissions, and compressing them is slow.
    "ALTER TABLE SCHEMA.rate ALTER COLUMN state SET STORAGE EXTERNAL",
    "CREATE TABLE IF NOT EXISTS SCHEMA.value (namespace KEY, name KEY, fence bigint NOT "
    "NULL, size bigint NOT NULL, sum text NOT NULL, stored timestamptz NOT NULL, "
    "fresh_until timestamptz NOT NULL, keep_until timestamptz NOT NULL, PRIMARY KEY "
    "(namespace, name))",
    "CREATE TABLE IF NOT EXISTS SCHEMA.piece (namespace KEY, name KEY, fence bigint NOT "
    "NULL, number integer NOT NULL, data bytea NOT NULL, keep_until timestamptz NOT "
    "NULL, "
    "PRIMARY KEY (namespace, name, fence, number))",
    "ALTER TABLE SCHEMA.piece ALTER COLUMN data SET STORAGE EXTERNAL",
    "CREATE TABLE IF NOT EXISTS SCHEMA.watcher (namespace KEY, id text NOT NULL, until "
    "timestamptz NOT NULL, PRIMARY KEY (namespace, id))",
    // By the transaction: what is recorded out of the order of commits is found.
    "CREATE TABLE IF NOT EXISTS SCHEMA.event (namespace KEY, xact bigint NOT NULL, id "
    "bigint GENERATED ALWAYS AS IDENTITY, line text NOT NULL, keep_until timestamptz NOT "
    "NULL, PRIMARY KEY (namespace, xact, id))",
    // For people.
    "CREATE OR REPLACE VIEW SCHEMA.locks AS SELECT namespace, name, state::jsonb AS "
    "state, "
    "runs::jsonb AS runs, refused, due, keep_until, format, version FROM SCHEMA.lock",
    // For the user's own transactions: what they write is written under the newest fence.
    "CREATE OR REPLACE FUNCTION SCHEMA.admit(resource text, fence bigint, namespace text "
    "DEFAULT 'dlock') RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = "
    "pg_catalog, pg_temp AS $admit$ BEGIN INSERT INTO SCHEMA.fence AS f (namespace, "
    "resource, greatest) VALUES (admit.namespace, admit.resource, admit.fence) ON "
    "CONFLICT "
    "ON CONSTRAINT fence_pkey DO UPDATE SET greatest = excluded.greatest WHERE "
    "f.greatest "
    "<= excluded.greatest; IF NOT FOUND THEN RAISE EXCEPTION 'a greater fence than % was "
    "admitted for %', admit.fence, admit.resource USING ERRCODE = 'DLF01'; END IF; END "
    "$admit$",
    "REVOKE ALL ON FUNCTION SCHEMA.admit(text, bigint, text) FROM PUBLIC",
};

// Fails if a table of that name is not one of ours.
std::vector<Statement> checks(const std::string& schema) {
  std::vector<Statement> statements;
  for (const auto& table : schema_tables) {
    statements.push_back({"SELECT " + table.columns() + " FROM " +
                              in_schema(schema, table.name) + " LIMIT 0",
                          {}});
  }
  return statements;
}

Failure not_allowed(const SqlError& error, const PgTarget& target) {
  const std::string what = error.what();
  const bool is_of_rows = what.find("row-level security") != std::string::npos;
  return Failure::rejected(
      what + (is_of_rows
                  ? ": the owner has to disable it for dlock's tables"
                  : ": the owner of the database has to run " + schema_command(target)));
}

// The schema, or a table in it, belongs to something else.
Failure not_ours(const PgTarget& target, const SqlError& error) {
  return Failure::misconfigured(std::string(error.what()) + ": the schema " +
                                target.schema +
                                " is not dlock's: name another with ?dlock_schema=NAME");
}

[[noreturn]] void throw_meaning(const SqlError& error, const PgTarget& target,
                                bool is_made) {
  if (error.code() == "42501") throw not_allowed(error, target);
  // Undefined, duplicate or of another type.
  if (is_made && error.code().starts_with("42")) throw not_ours(target, error);
  throw SqlError(error);
}

}  // namespace

std::string schema_command(const PgTarget& target) {
  const auto port = std::to_string(target.port);
  const auto directory = target.path.substr(0, target.path.rfind('/'));
  const bool is_socket = !target.path.empty();
  const bool is_address = target.host.find(':') != std::string::npos;
  std::string url = "postgres://" + encoded(target.user) + "@";
  if (!is_socket) {
    url += (is_address ? "[" + target.host + "]" : target.host) + ":" + port;
  }
  url += "/" + encoded(target.database);
  std::string more;
  if (is_socket) more = "&host=" + encoded(directory, "/") + "&port=" + port;
  if (target.schema != PgTarget().schema) more += "&dlock_schema=" + target.schema;
  if (!more.empty()) url += "?" + more.substr(1);
  constexpr std::size_t longest = 4000;
  return printable_command({"dlock", "doctor", "--schema", "--store", url}, longest) +
         " | " +
         printable_command({"psql", "-h", is_socket ? directory : target.host, "-p", port,
                            "-U", "OWNER", target.database},
                           longest);
}

namespace {

// From now on in this transaction, what is made belongs to the owner of what is there, or
// else of the database, if the role has the rights of that one: so it belongs to the
// group and not to one of its members, whom the others would not trust, and who may be
// one of those that a vault makes for an hour and drops. A superuser makes its own. Not
// each member of a role may become it.
std::string for_owner(const std::string& schema) {
  constexpr const char* becoming =
      "DO $own$ DECLARE owner name; BEGIN SELECT r.rolname INTO owner FROM pg.pg_roles "
      "r, pg.pg_roles me, pg.pg_database d WHERE d.datname OP(=) pg.current_database() "
      "AND me.rolname OP(=) current_user AND NOT me.rolsuper AND r.oid OP(=) "
      "coalesce((SELECT c.relowner FROM pg.pg_class c WHERE c.oid OP(=) "
      "pg.to_regclass('\"NAME\".lock')::pg.oid), (SELECT n.nspowner FROM pg.pg_namespace "
      "n WHERE n.nspname OP(=) 'NAME'), d.datdba) AND r.oid OP(<>) me.oid AND "
      "pg.pg_has_role(r.oid, 'USAGE'); IF FOUND THEN PERFORM pg.set_config('role', "
      "owner::pg.text, true); END IF; EXCEPTION WHEN insufficient_privilege OR "
      "invalid_parameter_value THEN NULL; END $own$";
  return replaced(becoming, "NAME", schema);
}

// Asks what the server has first: CREATE SCHEMA needs a right on the database even if the
// schema is there.
asio::awaitable<void> make_schema(PgPrimary& connection, Call call) {
  const auto& schema = connection.target().schema;
  Statement ask{
      "SELECT EXISTS (SELECT 1 FROM pg.pg_namespace n WHERE n.nspname OP(=) "
      "$1::pg.name), EXISTS (SELECT 1 FROM pg.pg_settings s WHERE s.name OP(=) "
      "'default_toast_compression' AND 'lz4' OP(=) ANY (s.enumvals))",
      {schema}};
  const auto known = co_await connection.exchange(alone(std::move(ask)), call);
  const auto server = connection.target().shown();
  const auto& row = row_at(known.at(0), 0, server);
  const bool is_there = column_at(row, 0, server) == "t";
  const bool has_lz4 = column_at(row, 1, server) == "t";
  Batch batch;
  batch.push_back({"SELECT pg.pg_advisory_xact_lock($1)", {std::string(schema_lock)}});
  batch.push_back({for_owner(schema), {}});
  auto statements = schema_statements(schema);
  if (is_there) statements.erase(statements.begin());
  for (auto& statement : statements) batch.push_back({std::move(statement), {}});
  if (has_lz4) {
    batch.push_back({"ALTER TABLE " + in_schema(schema, "lock") +
                         " ALTER COLUMN state SET COMPRESSION lz4",
                     {}});
  }
  for (auto& check : checks(schema)) batch.push_back(std::move(check));
  co_await connection.exchange(alone(in_transaction(std::move(batch))), call);
}

}  // namespace

std::string made_in_database(std::string_view table) {
  const std::string oid(table);
  return "pg.concat('made_', " + oid + ", '_', pg.substring(pg.pg_relation_filepath(" +
         oid + "), '([0-9]+)/[0-9]+$'))";
}

std::string in_schema(const std::string& schema, std::string_view name) {
  return "\"" + schema + "\"." + std::string(name);
}

std::string key_is(std::string_view table) {
  const std::string prefix(table);
  return prefix + ".namespace OP(=) $1 AND " + prefix + ".name OP(=) $2";
}

Batch in_transaction(Batch statements) {
  statements.insert(statements.begin(), {begin_to_write, {}});
  statements.push_back({"COMMIT", {}});
  return statements;
}

std::optional<std::int64_t> number_at(const Row& row, std::size_t column) {
  if (column >= row.size() || !row[column]) return std::nullopt;
  return number_in<std::int64_t>(*row[column]);
}

WallTime time_at(const Row& row, std::size_t column, const std::string& server) {
  column_at(row, column, server);
  const auto time = number_at(row, column);
  // The next fence would be one that dlock itself calls damaged.
  const bool is_possible =
      time && *time >= 0 &&
      Fence{static_cast<std::uint64_t>(*time)} < greatest_believed_fence;
  if (is_possible) return WallTime(*time);
  throw Failure::unreachable(server + ": no time in the reply");
}

std::string seconds_text(WallTime since_epoch) {
  const auto count = since_epoch.count();
  char text[40];
  std::snprintf(text, sizeof text, "%" PRId64 ".%06" PRId64, count / 1'000'000,
                count % 1'000'000);
  return text;
}

std::vector<std::string> schema_statements(const std::string& schema) {
  const auto quoted = "\"" + schema + "\"";
  std::vector<std::string> statements{"CREATE SCHEMA IF NOT EXISTS " + quoted};
  for (const auto* making : makings) {
    auto statement = replaced(replaced(making, "SCHEMA.", quoted + "."), " KEY,",
                              " " + std::string(key) + ",");
    statements.push_back(
        replaced(std::move(statement), "MADE(made)", made_in_database("made")));
  }
  return statements;
}

std::string schema_script(const std::string& schema, const std::string& role) {
  std::string script = "BEGIN;\n";
  for (const auto& statement : schema_statements(schema))
    script += in_full(statement) + ";\n";
  const auto quoted = "\"" + schema + "\"";
  const auto user = "\"" + replaced(role, "\"", "\"\"") + "\"";
  std::string names;
  for (const auto& table : schema_tables) {
    names += (names.empty() ? "" : ", ") + in_schema(schema, table.name);
  }
  script += "GRANT USAGE ON SCHEMA " + quoted + " TO " + user + ";\n";
  script += "GRANT SELECT, INSERT, UPDATE, DELETE ON " + names + " TO " + user + ";\n";
  script += "GRANT SELECT ON " + in_schema(schema, "locks") + " TO " + user + ";\n";
  script += "GRANT EXECUTE ON FUNCTION " +
            in_schema(schema, "admit(text, bigint, text)") + " TO " + user + ";\n";
  // Most databases permit this to everyone.
  constexpr const char* connecting =
      "DO $may$ BEGIN IF NOT pg_catalog.has_database_privilege('ROLE'::pg_catalog.name, "
      "pg_catalog.current_database()::pg_catalog.text, 'CONNECT') THEN EXECUTE "
      "pg_catalog.format('GRANT CONNECT ON DATABASE %I TO %I', "
      "pg_catalog.current_database(), 'ROLE'); END IF; EXCEPTION WHEN "
      "insufficient_privilege THEN RAISE WARNING '%', SQLERRM; END $may$;\n";
  if (role.find_first_of("$\\") == std::string::npos) {
    script += replaced(connecting, "ROLE", replaced(role, "'", "''"));
  }
  return script + "COMMIT;\n";
}

asio::awaitable<std::vector<Result>> exchange_in_schema(PgPrimary& connection,
                                                        std::vector<Batch> batches,
                                                        Call call) {
  for (bool is_made = false;; is_made = true) {
    std::optional<SqlError> error;
    try {
      auto copy = batches;
      co_return co_await connection.exchange(std::move(copy), call);
    } catch (const SqlError& failure) {
      error = failure;
    }
    const bool is_missing =
        error->code() == "42P01" || error->code() == "3F000" || error->code() == "42703";
    const bool can_be_made = !is_made && is_missing && error->batch() == 0;
    if (!can_be_made) throw_meaning(*error, connection.target(), is_made);
    try {
      co_await make_schema(connection, call);
      error.reset();
    } catch (const SqlError& failure) {
      error = failure;
    }
    if (error) throw_meaning(*error, connection.target(), true);
  }
}

}  // namespace dlock::postgres
