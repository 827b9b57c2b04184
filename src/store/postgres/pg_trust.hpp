// Who could run code in what dlock sends to its tables: the owners of the schema and of
// the tables, and of the triggers on them. A statement executes it with the rights of the
// role that sends the statement.
//
// An owner is trusted that is the role itself, a role that it is a member of, the owner
// of the database, or a superuser.
#pragma once

#include <string>
#include <vector>

#include "store/postgres/pg_errors.hpp"
#include "store/postgres/pg_wire.hpp"
#include "util/failure.hpp"

namespace dlock::postgres {

// Refused by the server, before anything behind it in its batch is executed, unless all
// owners are trusted at first sight, there is no trigger, no row is hidden from the role,
// and the tables were made in this database. It has no result. Only for a schema name of
// letters, digits and _.
Statement trust_guard(const std::string& schema);

// Puts the guard in front of what uses a table of the schema, in each batch. Whether
// there was such a batch.
bool guard(std::vector<Batch>& batches, const std::string& schema);

// Whether the error is the one by which the guard refuses. Then only the question says
// whether the schema can be used.
bool is_of_guard(const SqlError& error);

// Asks who is not trusted, which rows are hidden, and whether the tables are a copy. For
// in_catalog().
extern const char* const trust_question;

// Why the schema must not be used.
struct Distrust {
  Failure::Kind kind = Failure::Kind::misconfigured;
  std::string what;    // "the schema dlock belongs to mallory, who …"
  std::string advice;  // what to do about it
  // The tables were made in another database: those who use them are only warned.
  bool is_copy = false;
};
std::vector<Distrust> distrust_from(const std::vector<Row>& rows,
                                    const std::string& schema);

// Asks what is in the schema, or on its tables, that dlock has not made: a row for each,
// as the name of the thing. For in_catalog().
extern const char* const stranger_question;

// The statement, which can name functions and operators of PostgreSQL without their
// schema: with '$SCHEMA' for the schema, and $TABLES for an array of the tables in it.
// The last result is its own.
Batch in_catalog(std::string sql, const std::string& schema);

}  // namespace dlock::postgres
