#include "store/postgres/pg_lock_sql.hpp"

#include <cstdint>
#include <utility>

#include "record/states.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"

namespace dlock::postgres {
namespace {

// Of what is read at once. A state is written with 900,000 bytes at most, and not read
// with more than 1 MiB.
constexpr std::int64_t page_bytes = 4 << 20;
constexpr std::int64_t page_rows = 1000;

// The state and the runs of a lock together; with the rest it is a message that is read.
constexpr std::int64_t longest_row = 1'000'000;

std::string moment_text(Clock::time_point moment) {
  return seconds_text(std::chrono::floor<WallTime>(moment.time_since_epoch()));
}

// What others have made too long to be read is left out, so that such a row counts as
// damaged and no other one does.
std::string columns(const std::string& schema, bool with_runs) {
  const std::string fits = "OP(<=) " + std::to_string(longest_row);
  const std::string size_of_runs = "pg.octet_length(l.runs) ";
  return "l.version, l.format, CASE WHEN pg.octet_length(l.state) OP(+) " + size_of_runs +
         fits + " THEN l.state END, " +
         (with_runs ? "CASE WHEN " + size_of_runs + fits + " THEN l.runs END" : "'[]'") +
         ", l.refused, " + std::string(clock_micros) + ", " + is_watched(schema);
}

// Never from version 1 on: a late request for a lock that was removed must not fit this
// one.
std::string to_insert(const std::string& table) {
  return "INSERT INTO " + table +
         " AS l (namespace, name, version, format, state, runs, refused, due, "
         "keep_until) VALUES ($1, $2, " +
         std::string(clock_micros) +
         ", $3::pg.int2, $4, $5, $6::pg.int8, pg.to_timestamp($7::pg.float8), "
         "pg.to_timestamp($8::pg.float8)) ON CONFLICT (namespace, name) DO NOTHING";
}

std::string to_update(const std::string& table) {
  return "UPDATE " + table +
         " l SET version = l.version OP(+) 1, format = $3::pg.int2, state = $4, runs = "
         "COALESCE($5, l.runs), refused = l.refused OP(+) $6::pg.int8, due = "
         "pg.to_timestamp($7::pg.float8), keep_until = pg.to_timestamp($8::pg.float8) "
         "WHERE " +
         key_is("l") + " AND l.version OP(=) $9::pg.int8";
}

}  // namespace

Statement to_read(const std::string& schema, const LockName& lock) {
  return {"SELECT " + columns(schema, true) + " FROM (SELECT 1) one LEFT JOIN " +
              in_schema(schema, "lock") + " l ON " + key_is("l"),
          {lock.name_space, lock.name}};
}

Statement to_hold_row(const std::string& schema, const LockName& lock) {
  return {"SELECT 1 FROM " + in_schema(schema, "lock") + " l WHERE " + key_is("l") +
              " FOR UPDATE",
          {lock.name_space, lock.name}};
}

Statement to_read_page(const std::string& schema, const std::string& name_space,
                       const std::string& behind, bool with_runs) {
  const auto size = [](const char* column) {
    return "pg.octet_length(l." + std::string(column) + ")";
  };
  return {"SELECT " + columns(schema, with_runs) +
              ", l.name, l.size OP(<) l.whole OR l.rows OP(=) $4::pg.int8 FROM (SELECT "
              "p.*, pg.sum(p.bytes) OVER (ORDER BY p.name) AS size, pg.sum(p.bytes) OVER "
              "() AS whole, pg.count(*) OVER () AS rows FROM (SELECT l.*, " +
              size("state") + " OP(+) " + (with_runs ? size("runs") : "0") +
              " AS bytes FROM " + in_schema(schema, "lock") +
              " l WHERE l.namespace OP(=) $1 AND l.name OP(>) $2 ORDER BY l.name LIMIT "
              "$4::pg.int8) p) l WHERE l.size OP(-) l.bytes OP(<=) $3::pg.int8 ORDER BY "
              "l.name",
          {name_space, behind, std::to_string(page_bytes), std::to_string(page_rows)}};
}

std::optional<Statement> to_write(const std::string& schema, const LockName& lock,
                                  const stepped::StateStore::Snapshot& read,
                                  const stepped::StateStore::Change& change,
                                  const std::vector<Event>& recorded) {
  auto state = record::state_json(change.state);
  if (!state) return std::nullopt;
  const auto due = stepped::due_of(change.state);
  const bool is_new = read.version.empty();
  const bool has_new_runs = is_new || change.state.runs != read.state.runs;
  std::vector<std::optional<std::string>> params{
      lock.name_space,
      lock.name,
      std::to_string(record::format_of(change.state)),
      std::move(*state),
      has_new_runs ? std::optional(record::runs_json(change.state.runs)) : std::nullopt,
      std::to_string(change.state.refused - read.state.refused),
      due ? std::optional(moment_text(*due)) : std::nullopt,
      moment_text(stepped::keep_until(change.state, read.now))};
  if (!is_new) params.push_back(read.version);
  const auto table = in_schema(schema, "lock");
  const auto sql = (is_new ? to_insert(table) : to_update(table)) + " RETURNING 1";
  if (recorded.empty()) return Statement{sql, std::move(params)};
  params.push_back(lines_of(recorded));
  return Statement{"WITH done AS (" + sql + "), told AS (" +
                       to_record(schema, "$" + std::to_string(params.size())) +
                       ", done ORDER BY e.n) SELECT 1 FROM done",
                   std::move(params)};
}

bool is_of_write(const Result& result, bool is_new, bool records) {
  if (records) return result.tag.starts_with("SELECT");
  return result.tag.starts_with(is_new ? "INSERT" : "UPDATE");
}

Statement to_count_refused(const std::string& schema, const LockName& lock) {
  const auto table = in_schema(schema, "lock");
  return {"UPDATE " + table +
              " SET refused = refused OP(+) 1 WHERE ctid OP(=) (SELECT l.ctid FROM " +
              table + " l WHERE " + key_is("l") + " FOR UPDATE SKIP LOCKED)",
          {lock.name_space, lock.name}};
}

Statement to_list_overdue(const std::string& schema, const std::string& name_space) {
  return {"SELECT l.name FROM " + in_schema(schema, "lock") +
              " l WHERE l.namespace OP(=) $1 AND l.due OP(<) pg.clock_timestamp() ORDER "
              "BY l.due LIMIT 100",
          {name_space}};
}

}  // namespace dlock::postgres
