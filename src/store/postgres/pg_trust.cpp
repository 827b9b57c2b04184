#include "store/postgres/pg_trust.hpp"

#include <algorithm>
#include <utility>

#include "store/postgres/pg_schema.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// "{lock,fence,…}": the names of the tables.
std::string table_names() {
  std::string names;
  for (const auto& table : schema_tables) {
    names += (names.empty() ? "{" : ",") + std::string(table.name);
  }
  return names + "}";
}

// What the guard asks the server to take for a number: servers quote it in their error,
// in each language.
constexpr std::string_view refusal = "dlock asks who owns the schema";

std::string text_at(const Row& row, std::size_t column) {
  return column < row.size() ? printable(row[column].value_or(""), 100) : "";
}

}  // namespace

// A superuser counts as a member of each role, but is a member only of those that it was
// made one of. Others have the rights of a role (USAGE): from version 16 on, whoever
// makes a role is a member of it, but without its rights.
const char* const trust_question =
    "WITH RECURSIVE me(oid, rolsuper) AS (SELECT r.oid, r.rolsuper FROM pg_roles r WHERE "
    "r.rolname = current_user), mine(oid) AS (SELECT r.oid FROM pg_roles r, me WHERE "
    "r.oid = me.oid OR (NOT me.rolsuper AND pg_has_role(r.oid, 'USAGE')) UNION SELECT "
    "m.roleid FROM pg_auth_members m JOIN mine ON m.member = mine.oid JOIN me ON "
    "me.rolsuper), "
    "trusted(oid) AS (SELECT oid FROM mine UNION SELECT r.oid FROM pg_roles r, "
    "pg_database d WHERE d.datname = current_database() AND (r.rolsuper OR r.oid = 6171 "
    "OR pg_has_role(r.oid, d.datdba, 'MEMBER'))), "
    "ours AS (SELECT c.oid, c.relname, c.relowner, c.relrowsecurity FROM pg_namespace n "
    "JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $SCHEMA AND c.relname = "
    "ANY ($TABLES)), "
    "found(rank, kind, name, owner) AS (SELECT 1, 'rows', o.relname::text, 0::oid FROM "
    "ours o WHERE o.relrowsecurity AND row_security_active(o.oid) UNION ALL SELECT 2, "
    "'schema', n.nspname::text, n.nspowner FROM pg_namespace n WHERE n.nspname = $SCHEMA "
    "UNION ALL SELECT 3, 'table', o.relname::text, o.relowner FROM ours o UNION ALL "
    "SELECT 4, 'trigger', t.tgname || ' on ' || o.relname, p.proowner FROM ours o JOIN "
    "pg_trigger t ON t.tgrelid = o.oid JOIN pg_proc p ON p.oid = t.tgfoid UNION ALL "
    "SELECT 5, 'copy', k.relname::text, 0::oid FROM ours o JOIN pg_index i ON i.indrelid "
    "= o.oid AND i.indisprimary JOIN pg_class k ON k.oid = i.indexrelid WHERE o.relname "
    "= 'lock' AND k.relname::text NOT IN ('lock_pkey', $MADE)) "
    "SELECT f.kind, f.name, coalesce(r.rolname::text, f.owner::text), current_user::text "
    "FROM found f LEFT JOIN pg_roles r ON r.oid = f.owner WHERE f.owner NOT IN (SELECT "
    "oid FROM trusted) ORDER BY f.rank, f.name LIMIT 20";

// Constraints that are no checks are indexes and triggers, and those of other tables that
// refer to ours.
const char* const stranger_question =
    "WITH ours AS (SELECT c.oid, c.relname, c.relkind, n.oid AS namespace FROM "
    "pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $SCHEMA "
    "AND c.relname = ANY ($TABLES)), "
    "found(what) AS (SELECT 'trigger ' || t.tgname || ' on ' || o.relname FROM ours o "
    "JOIN pg_trigger t ON t.tgrelid = o.oid WHERE NOT t.tgisinternal UNION ALL SELECT "
    "'rule ' || r.rulename || ' on ' || o.relname FROM ours o JOIN pg_rewrite r ON "
    "r.ev_class = o.oid UNION ALL SELECT 'policy ' || p.polname || ' on ' || o.relname "
    "FROM ours o JOIN pg_policy p ON p.polrelid = o.oid UNION ALL SELECT 'constraint ' "
    "|| k.conname || ' on ' || o.relname FROM ours o JOIN pg_constraint k ON o.oid IN "
    "(k.conrelid, k.confrelid) WHERE k.contype IN ('c', 'f', 'x', 't') UNION ALL SELECT "
    "'index ' || i.indexrelid::regclass || ' on ' || o.relname FROM ours o JOIN pg_index "
    "i ON i.indrelid = o.oid WHERE NOT i.indisprimary OR i.indexprs IS NOT NULL OR "
    "i.indpred IS NOT NULL UNION ALL SELECT 'inheritance of ' || o.relname FROM ours o "
    "JOIN pg_inherits h ON o.oid IN (h.inhrelid, h.inhparent) UNION ALL SELECT CASE WHEN "
    "a.attgenerated <> '' THEN 'generated column ' WHEN a.atthasdef THEN 'default of "
    "column ' ELSE 'type of column ' END || a.attname || ' of ' || o.relname FROM ours o "
    "JOIN pg_attribute a ON a.attrelid = o.oid JOIN pg_type y ON y.oid = a.atttypid "
    "WHERE "
    "a.attnum > 0 AND NOT a.attisdropped AND (a.attgenerated <> '' OR (a.atthasdef AND "
    "NOT (o.relname = 'lock' AND a.attname = 'refused')) OR y.typnamespace <> "
    "'pg_catalog'::regnamespace) UNION ALL SELECT CASE o.relkind WHEN 'v' THEN 'view ' "
    "WHEN 'f' THEN 'foreign table ' ELSE 'relation of another kind ' END || o.relname "
    "FROM ours o WHERE o.relkind <> 'r' UNION ALL SELECT 'relation ' || c.relname FROM "
    "pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $SCHEMA "
    "AND n.nspname <> 'public' AND c.relkind NOT IN ('i', 'I', 'S', 'c') AND c.relname "
    "<> "
    "ALL ($TABLES) AND c.relname <> 'locks' UNION ALL SELECT 'function ' || p.proname "
    "FROM pg_namespace n JOIN pg_proc p ON p.pronamespace = n.oid WHERE n.nspname = "
    "$SCHEMA AND n.nspname <> 'public' AND p.proname <> 'admit' UNION ALL SELECT 'type ' "
    "|| y.typname FROM pg_namespace n JOIN pg_type y ON y.typnamespace = n.oid WHERE "
    "n.nspname = $SCHEMA AND n.nspname <> 'public' AND y.typelem = 0 AND (y.typtype <> "
    "'c' OR EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = y.typrelid AND c.relkind = "
    "'c'))) SELECT what FROM found ORDER BY what LIMIT 20";

// That the text is no number is an error of the server. The roles have these numbers on
// every server: 10 is the first superuser; and 6171 has, from version 14 on, the owner of
// the database as its only member, and whoever may act as that one. Of others it has
// none.
Statement trust_guard(const std::string& schema) {
  Statement guard;
  guard.sql = "SELECT pg.concat('" + std::string(refusal) +
              "', c.relname)::pg.int4 FROM pg.pg_namespace n LEFT JOIN pg.pg_class c ON "
              "c.relnamespace OP(=) n.oid AND c.relname OP(=) ANY ('" +
              table_names() + "'::pg.name[]) WHERE n.nspname OP(=) '" + schema + "'";
  const auto is_strange = [](const std::string& owner) {
    return "NOT (pg.pg_has_role(" + owner +
           ", 6171::pg.oid, 'MEMBER') OR (NOT pg.pg_has_role(10::pg.oid, 'MEMBER') AND "
           "pg.pg_has_role(" +
           owner + ", 'USAGE')))";
  };
  guard.sql +=
      " AND (" + is_strange("n.nspowner") + " OR " + is_strange("c.relowner") +
      " OR c.relhastriggers OR (c.relrowsecurity AND pg.row_security_active(c.oid)) OR "
      "(c.relname OP(=) 'lock' AND pg.to_regclass('" +
      in_schema(schema, "lock_pkey") + "') IS NULL AND pg.to_regclass(pg.concat('" +
      in_schema(schema, "', ") + made_in_database("c.oid") + ")) IS NULL))";
  guard.is_guard = true;
  return guard;
}

bool guard(std::vector<Batch>& batches, const std::string& schema) {
  bool is_needed = false;
  const auto tables = in_schema(schema, "");
  for (auto& batch : batches) {
    const bool uses_tables = std::ranges::any_of(batch, [&](const Statement& statement) {
      return statement.sql.find(tables) != std::string::npos;
    });
    if (!uses_tables) continue;
    is_needed = true;
    const bool begins = batch.front().sql.starts_with("BEGIN");
    batch.insert(batch.begin() + (begins ? 1 : 0), trust_guard(schema));
  }
  return is_needed;
}

bool is_of_guard(const SqlError& error) {
  return error.code() == "22P02" &&
         std::string_view(error.what()).find(refusal) != std::string_view::npos;
}

// The setting is undone at the end of the batch.
Batch in_catalog(std::string sql, const std::string& schema) {
  sql = replaced(replaced(std::move(sql), "$SCHEMA", "'" + schema + "'"), "$TABLES",
                 "'" + table_names() + "'::name[]");
  sql = replaced(std::move(sql), "$MADE", made_in_database("o.oid"));
  Batch batch;
  batch.push_back(
      {"SELECT pg.set_config('search_path', 'pg_catalog, pg_temp', true)", {}});
  batch.push_back({std::move(sql), {}});
  return batch;
}

std::vector<Distrust> distrust_from(const std::vector<Row>& rows,
                                    const std::string& schema) {
  std::vector<Distrust> all;
  for (const auto& row : rows) {
    const auto kind = text_at(row, 0);
    const auto name = text_at(row, 1);
    const auto owner = text_at(row, 2);
    const auto user = text_at(row, 3);
    if (kind == "copy") {
      all.push_back({Failure::Kind::rejected,
                     "this database is a copy, with the locks and runs of the original",
                     "DROP SCHEMA " + schema +
                         " CASCADE, or, to keep them, ALTER INDEX " +
                         in_schema(schema, name) + " RENAME TO lock_pkey",
                     true});
      continue;
    }
    if (kind == "rows") {
      all.push_back({Failure::Kind::rejected,
                     "row-level security hides rows of " + name + " from user " + user,
                     "ALTER TABLE " + in_schema(schema, name) +
                         " DISABLE ROW LEVEL SECURITY, as the owner"});
      continue;
    }
    const auto what = kind == "trigger" ? "the trigger " + name
                      : kind == "table" ? "the table " + schema + "." + name
                                        : "the schema " + name;
    all.push_back({Failure::Kind::misconfigured,
                   what + " belongs to " + owner + ", who is neither user " + user +
                       " nor the owner of the database, and could run code with the "
                       "rights of " +
                       user,
                   kind == "trigger"
                       ? "DROP TRIGGER, as the owner of the table"
                       : "give it to the owner of the database (ALTER " +
                             std::string(kind == "table" ? "TABLE " : "SCHEMA ") +
                             (kind == "table" ? in_schema(schema, name) : name) +
                             " OWNER TO ...), or name another schema with "
                             "?dlock_schema=NAME"});
  }
  return all;
}

}  // namespace dlock::postgres
