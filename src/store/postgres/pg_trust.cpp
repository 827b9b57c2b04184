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

// "('lock', '{namespace, name}'::text[]), …": the key of each.
std::string keys_in_sql() {
  std::string values;
  for (const auto& table : schema_tables) {
    values += joined(values.empty() ? "('" : ", ('", table.name, "', '{", table.key,
                     "}'::text[])");
  }
  return values;
}

// What the guard asks the server to take for a number: servers quote it in their error,
// in each language.
constexpr std::string_view refusal = "dlock asks who owns the schema";

std::string text_at(const Row& row, std::size_t column) {
  return column < row.size() ? printable(row[column].value_or(""), 100) : "";
}

std::string dropping(const std::string& schema) {
  return "DROP SCHEMA " + schema +
         " CASCADE, or name another schema with ?dlock_schema=NAME";
}

// What is wrong with a table, whoever owns it.
std::optional<Distrust> distrust_of_table(const std::string& kind,
                                          const std::string& name,
                                          const std::string& schema) {
  const auto table = "the table " + schema + "." + name;
  using Kind = Failure::Kind;
  if (kind == "shape") {
    return Distrust{Kind::misconfigured,
                    table + " is a view, or has partitions or tables that inherit",
                    dropping(schema)};
  }
  if (kind == "unlogged") {
    return Distrust{Kind::misconfigured,
                    table +
                        " is not logged: a crash of the server empties it, and no "
                        "standby has it",
                    "ALTER TABLE " + in_schema(schema, name) + " SET LOGGED"};
  }
  if (kind != "key") return std::nullopt;
  const auto found = std::ranges::find(schema_tables, name, &SchemaTable::name);
  const auto key = found == std::end(schema_tables) ? "" : std::string(found->key);
  return Distrust{
      Kind::misconfigured,
      table + " lacks its unique key (" + key + "): two runs could get one lock",
      "restore it (pg_restore --section=post-data), DROP SCHEMA " + schema +
          " CASCADE, or, if the database is no copy, ALTER TABLE " +
          in_schema(schema, name) + " ADD PRIMARY KEY (" + key + ")"};
}

}  // namespace

// A superuser counts as a member of each role, but is a member only of those that it was
// made one of. Others have the rights of a role (USAGE): from version 16 on, whoever
// makes a role is a member of it, but without its rights.
const char* const trust_question = R"sql(
WITH RECURSIVE me(oid, rolsuper) AS (SELECT r.oid, r.rolsuper FROM pg_roles r WHERE
  r.rolname = current_user),
mine(oid) AS (SELECT r.oid FROM pg_roles r, me WHERE r.oid = me.oid OR (NOT me.rolsuper
  AND pg_has_role(r.oid, 'USAGE')) UNION SELECT m.roleid FROM pg_auth_members m JOIN
  mine ON m.member = mine.oid JOIN me ON me.rolsuper),
trusted(oid) AS (SELECT oid FROM mine UNION SELECT r.oid FROM pg_roles r, pg_database d
  WHERE d.datname = current_database() AND (r.rolsuper OR r.oid = 6171 OR
  pg_has_role(r.oid, d.datdba, 'MEMBER'))),
ours AS (SELECT c.oid, c.relname, c.relowner, c.relrowsecurity, c.relkind,
  c.relispartition, c.relpersistence FROM pg_namespace n JOIN pg_class c ON
  c.relnamespace = n.oid WHERE n.nspname = $SCHEMA AND c.relname = ANY ($TABLES)),
reached(class, oid) AS (SELECT x.class::oid, x.oid FROM ours o, LATERAL (SELECT
  'pg_class'::regclass, o.oid
UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.conrelid
  = o.oid
UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef d WHERE d.adrelid = o.oid
UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid =
  o.oid
UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r WHERE r.ev_class =
  o.oid
UNION ALL SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t WHERE t.tgrelid = o.oid
UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_policy p WHERE p.polrelid = o.oid)
  x(class, oid)
UNION SELECT y.class, y.oid FROM reached a, LATERAL (SELECT d.refclassid, d.refobjid
  FROM pg_depend d WHERE d.classid = a.class AND d.objid = a.oid AND d.refclassid IN
  ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass,
  'pg_class'::regclass)
UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE a.class =
  'pg_type'::regclass AND k.contypid = a.oid) y(class, oid)),
found(rank, kind, name, owner) AS (SELECT 1, 'rows', o.relname::text, 0::oid FROM ours o
  WHERE o.relrowsecurity AND row_security_active(o.oid)
UNION ALL SELECT 2, 'schema', n.nspname::text, n.nspowner FROM pg_namespace n WHERE
  n.nspname = $SCHEMA
UNION ALL SELECT 3, 'table', o.relname::text, o.relowner FROM ours o
UNION ALL SELECT 4, 'trigger', t.tgname || ' on ' || o.relname, p.proowner FROM ours o
  JOIN pg_trigger t ON t.tgrelid = o.oid JOIN pg_proc p ON p.oid = t.tgfoid
UNION ALL SELECT 5, 'code', 'constraint ' || k.conname || ' on ' ||
  k.conrelid::regclass, c.relowner FROM ours o JOIN pg_constraint k ON k.confrelid =
  o.oid JOIN pg_class c ON c.oid = k.conrelid
UNION ALL SELECT 5, 'code', pg_describe_object(a.class, a.oid, 0), coalesce(p.proowner,
  q.oprowner, y.typowner, c.relowner) FROM reached a LEFT JOIN pg_proc p ON a.class =
  'pg_proc'::regclass AND p.oid = a.oid LEFT JOIN pg_operator q ON a.class =
  'pg_operator'::regclass AND q.oid = a.oid LEFT JOIN pg_type y ON a.class =
  'pg_type'::regclass AND y.oid = a.oid LEFT JOIN pg_class c ON a.class =
  'pg_class'::regclass AND c.oid = a.oid
UNION ALL SELECT 6, 'shape', o.relname::text, 0::oid FROM ours o WHERE o.relkind <> 'r'
  OR o.relispartition OR EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = o.oid)
UNION ALL SELECT 7, 'key', w.name, 0::oid FROM ours o JOIN (VALUES $KEYS) w(name,
  columns) ON w.name = o.relname::text WHERE NOT EXISTS (SELECT 1 FROM pg_index i WHERE
  i.indrelid = o.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred
  IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = cardinality(w.columns) AND
  w.columns <@ ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = o.oid
  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])))
UNION ALL SELECT 8, 'unlogged', o.relname::text, 0::oid FROM ours o WHERE
  o.relpersistence <> 'p'
UNION ALL SELECT 9, 'copy', k.relname::text, 0::oid FROM ours o JOIN pg_index i ON
  i.indrelid = o.oid AND i.indisprimary JOIN pg_class k ON k.oid = i.indexrelid WHERE
  o.relname = 'lock' AND k.relname::text NOT IN ('lock_pkey', $MADE))
SELECT f.kind, f.name, coalesce(r.rolname::text, f.owner::text), current_user::text FROM
  found f LEFT JOIN pg_roles r ON r.oid = f.owner WHERE f.owner NOT IN (SELECT oid FROM
  trusted) ORDER BY f.rank, f.name LIMIT 20)sql";

// Constraints that are no checks are indexes and triggers, and those of other tables that
// refer to ours.
const char* const stranger_question =
    "WITH ours AS (SELECT c.oid, c.relname, c.relkind, n.oid AS namespace FROM "
    "pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $SCHEMA "
    "AND c.relname = ANY ($TABLES)), found(what) AS (SELECT 'trigger ' || t.tgname || ' "
    "on ' || o.relname FROM ours o JOIN pg_trigger t ON t.tgrelid = o.oid WHERE NOT "
    "t.tgisinternal UNION ALL SELECT 'rule ' || r.rulename || ' on ' || o.relname FROM "
    "ours o JOIN pg_rewrite r ON r.ev_class = o.oid UNION ALL SELECT 'policy ' || "
    "p.polname || ' on ' || o.relname FROM ours o JOIN pg_policy p ON p.polrelid = o.oid "
    "UNION ALL SELECT 'constraint ' || k.conname || ' on ' || o.relname FROM ours o JOIN "
    "pg_constraint k ON o.oid IN (k.conrelid, k.confrelid) WHERE k.contype IN ('c', 'f', "
    "'x', 't') UNION ALL SELECT 'index ' || i.indexrelid::regclass || ' on ' || "
    "o.relname FROM ours o JOIN pg_index i ON i.indrelid = o.oid WHERE NOT "
    "i.indisprimary OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL UNION ALL SELECT "
    "'inheritance of ' || o.relname FROM ours o JOIN pg_inherits h ON o.oid IN "
    "(h.inhrelid, h.inhparent) UNION ALL SELECT CASE WHEN a.attgenerated <> '' THEN "
    "'generated column ' WHEN a.atthasdef THEN 'default of column ' ELSE 'type of column "
    "' END || a.attname || ' of ' || o.relname FROM ours o JOIN pg_attribute a ON "
    "a.attrelid = o.oid JOIN pg_type y ON y.oid = a.atttypid WHERE a.attnum > 0 AND NOT "
    "a.attisdropped AND (a.attgenerated <> '' OR (a.atthasdef AND NOT (o.relname = "
    "'lock' AND a.attname = 'refused')) OR y.typnamespace <> 'pg_catalog'::regnamespace) "
    "UNION ALL SELECT CASE o.relkind WHEN 'v' THEN 'view ' WHEN 'f' THEN 'foreign table "
    "' ELSE 'relation of another kind ' END || o.relname FROM ours o WHERE o.relkind <> "
    "'r' UNION ALL SELECT 'relation ' || c.relname FROM pg_namespace n JOIN pg_class c "
    "ON c.relnamespace = n.oid WHERE n.nspname = $SCHEMA AND n.nspname <> 'public' AND "
    "c.relkind NOT IN ('i', 'I', 'S', 'c') AND c.relname <> ALL ($TABLES) AND c.relname "
    "<> 'locks' UNION ALL SELECT 'function ' || p.proname FROM pg_namespace n JOIN "
    "pg_proc p ON p.pronamespace = n.oid WHERE n.nspname = $SCHEMA AND n.nspname <> "
    "'public' AND p.proname <> 'admit' UNION ALL SELECT 'type ' || y.typname FROM "
    "pg_namespace n JOIN pg_type y ON y.typnamespace = n.oid WHERE n.nspname = $SCHEMA "
    "AND n.nspname <> 'public' AND y.typelem = 0 AND (y.typtype <> 'c' OR EXISTS (SELECT "
    "1 FROM pg_class c WHERE c.oid = y.typrelid AND c.relkind = 'c'))) SELECT what FROM "
    "found ORDER BY what LIMIT 20";

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
  guard.sql += " AND (" + is_strange("n.nspowner") + " OR " + is_strange("c.relowner") +
               " OR c.relhastriggers OR c.relhasrules OR c.relchecks OP(<>) 0 OR "
               "c.relhassubclass OR c.relispartition OR c.relkind OP(<>) 'r' OR "
               "c.relpersistence OP(<>) 'p' OR (c.relrowsecurity AND "
               "pg.row_security_active(c.oid)) OR EXISTS "
               "(SELECT 1 FROM pg.pg_attribute a WHERE a.attrelid OP(=) c.oid AND "
               "(a.atttypid OP(>=) 16384::pg.oid OR (a.atthasdef AND NOT (c.relname "
               "OP(=) 'lock' AND a.attname OP(=) 'refused')))) OR (c.relname OP(=) "
               "'lock' AND pg.to_regclass('" +
               in_schema(schema, "lock_pkey") +
               "') IS NULL AND pg.to_regclass(pg.concat('" + in_schema(schema, "', ") +
               made_in_database("c.oid") + ")) IS NULL))";
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
  sql = replaced(replaced(std::move(sql), "$MADE", made_in_database("o.oid")), "$KEYS",
                 keys_in_sql());
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
    if (auto one = distrust_of_table(kind, name, schema)) {
      all.push_back(std::move(*one));
      continue;
    }
    const auto what = kind == "trigger" ? "the trigger " + name
                      : kind == "code"  ? name + ", which dlock's tables use,"
                      : kind == "table" ? "the table " + schema + "." + name
                                        : "the schema " + name;
    all.push_back({Failure::Kind::misconfigured,
                   what + " belongs to " + owner + ", who is neither user " + user +
                       " nor the owner of the database, and could run code with the "
                       "rights of " +
                       user,
                   kind == "trigger" ? "DROP TRIGGER, as the owner of the table"
                                     : dropping(schema)});
  }
  return all;
}

}  // namespace dlock::postgres
