// What the errors of PostgreSQL mean, by their SQLSTATE.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/budget.hpp"
#include "store/postgres/pg_wire.hpp"
#include "util/failure.hpp"

namespace dlock::postgres {

// The server refused a statement, so that nothing of its batch was done.
class SqlError : public Failure {
 public:
  // `batch`: which of those that were sent, from 0 on; the ones before it were done.
  SqlError(const Notice& error, const std::string& server, std::size_t batch = 0);

  const std::string& code() const { return code_; }
  std::size_t batch() const { return batch_; }

 private:
  std::string code_;
  std::size_t batch_;
};

// What to do about an error with this SQLSTATE.
Failure::Kind kind_of_error(std::string_view code);

// The error that refuses a login or ends a session, with the SQLSTATE that PostgreSQL
// would give it: poolers give the same one to all, also to errors of the server that they
// pass on.
Notice session_error(Notice error);

// Whether a server that refuses a login with this error may accept it later; nothing if
// that is not so.
std::optional<net::Refusal::Reason> refusal_of(const Notice& error);

// "SERVER: what the server says", as one printable line of bounded length.
std::string error_text(const Notice& error, const std::string& server);

// Of a login: throws Refusal if it may succeed later, else SqlError.
[[noreturn]] void throw_refused(const Notice& error, const std::string& server);

// A row of a reply of `server`, and a column of a row. They throw Failure (unreachable)
// if there is none: only another program than PostgreSQL leaves out what it was asked
// for.
const Row& row_at(const Result& result, std::size_t row, const std::string& server);
const std::optional<std::string>& column_at(const Row& row, std::size_t column,
                                            const std::string& server);

// Whether a statement failed only because another one was faster (serialization failure,
// deadlock) or the session has lost it, so that it may be repeated.
bool is_conflict(const SqlError& error);

}  // namespace dlock::postgres
