// What the errors of PostgreSQL mean, by their SQLSTATE.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/net_failures.hpp"
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

// The error that refuses a login, with the SQLSTATE that PostgreSQL would give it:
// PgBouncer gives the same one to all.
Notice login_error(Notice error);

// Whether a server that refuses a login with this error may accept it later; nothing if
// that is not so.
std::optional<net::Refusal::Reason> refusal_of(const Notice& error);

// "SERVER: what the server says", as one printable line of bounded length.
std::string error_text(const Notice& error, const std::string& server);

// Whether a statement failed only because another one was faster (serialization failure,
// deadlock), so that it may be repeated.
bool is_conflict(const SqlError& error);

}  // namespace dlock::postgres
