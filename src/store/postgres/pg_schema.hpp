// The tables in which dlock keeps its locks, and the SQL that all statements share.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/postgres/pg_primary.hpp"
#include "util/clock.hpp"

namespace dlock::postgres {

// The tables of this version, each with its columns.
struct SchemaTable {
  std::string_view name;
  std::string_view key;   // "namespace, name": what no two rows share
  std::string_view rest;  // ", version"
  std::string columns() const { return std::string(key) + std::string(rest); }
};
inline constexpr SchemaTable schema_tables[] = {
    {"lock", "namespace, name",
     ", version, format, state, runs, refused, due, keep_until"},
    {"fence", "namespace, resource", ", greatest"},
    {"rate", "namespace, name", ", version, format, state, keep_until"},
    {"value", "namespace, name", ", fence, size, sum, stored, fresh_until, keep_until"},
    {"piece", "namespace, name, fence, number", ", data, keep_until"},
    {"watcher", "namespace, id", ", until"},
    {"event", "namespace, xact, id", ", line, keep_until"},
};

// An expression for the name that the key of the table `lock` has where it was made: with
// the numbers of table and database, which are others in a copy. The first is given, and
// the second, which would otherwise be a join, is in the path of the table's file.
std::string made_in_database(std::string_view table);

// A table, view or function of dlock's schema, quoted.
std::string in_schema(const std::string& schema, std::string_view name);

// That a row has the namespace $1 and the name $2.
std::string key_is(std::string_view table);

// The server's time in microseconds since the epoch. Each statement reads it anew.
inline constexpr std::string_view clock_micros =
    "(pg.date_part('epoch', pg.clock_timestamp()) OP(*) 1000000)::pg.int8";

// Begins a transaction that may write, whatever the defaults of the role are. An implicit
// one has these defaults.
inline constexpr const char* begin_to_write =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

// The statements as one such transaction.
Batch in_transaction(Batch statements);

// For pg.to_timestamp($N::pg.float8).
std::string seconds_text(WallTime since_epoch);

// The number in a column of a reply; nothing if there is none.
std::optional<std::int64_t> number_at(const Row& row, std::size_t column);

// What `clock_micros` has become in a reply of `server`. Throws Failure as column_at(),
// also for a time that cannot be.
WallTime time_at(const Row& row, std::size_t column, const std::string& server);

// All statements that make the schema. Each has no effect if what it makes is there.
std::vector<std::string> schema_statements(const std::string& schema);

// The same as a script for the owner of the database, with the rights that other roles
// need.
std::string schema_script(const std::string& schema, const std::string& role);

// The line for a shell that makes it, complete but for the name of the owner, without
// secrets: "dlock doctor --schema --store postgres://... | psql -h ... -U OWNER app".
std::string schema_command(const PgTarget& target);

// As PgPrimary::exchange(). If a table or a column is missing, makes the schema and
// repeats the exchange. Throws Failure (rejected) if the role must not do that,
// (misconfigured) if there is a schema of that name which is not dlock's.
asio::awaitable<std::vector<Result>> exchange_in_schema(PgPrimary& connection,
                                                        std::vector<Batch> batches,
                                                        Call call);

}  // namespace dlock::postgres
