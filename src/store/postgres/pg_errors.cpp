#include "store/postgres/pg_errors.hpp"

#include "net/budget.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr std::size_t longest_text = 200;

// What the user can do, where the text of the server does not say it.
const char* remedy_for(std::string_view code, std::string_view text) {
  if (code.starts_with("3D")) return ": create it, or name another in the store URL";
  if (code == "28P01") return ": check the user and the password";
  if (code.starts_with("28")) {
    return ": check the user in the store URL, and pg_hba.conf on the server";
  }
  // Also a user can cancel a statement.
  if (code == "57014" && text.find("timeout") != std::string_view::npos) {
    return ": raise it for this role (ALTER ROLE)";
  }
  // All of these end a login; a step of dlock sets nothing that they can be about.
  for (const auto* part : {"command-line argument", "configuration parameter",
                           "for parameter", "denied to set"}) {
    if (text.find(part) != text.npos) {
      return ": correct the options in the store URL, or PGOPTIONS";
    }
  }
  if (text.find("startup parameter") != text.npos) {
    return ": leave out the options in the store URL, or PGOPTIONS, or let the pooler "
           "ignore them (ignore_startup_parameters)";
  }
  if (text.find("statement pooling mode") != text.npos) {
    return ": let it share sessions by transaction (pool_mode = transaction)";
  }
  if (code.starts_with("P0")) return ": a trigger of the database raised this";
  if (code == "42P10")
    return ": a table of dlock's lacks its unique key, see dlock doctor";
  if (code == "22P05") return ": use another name, or a database with the encoding UTF8";
  return "";
}

}  // namespace

SqlError::SqlError(const Notice& error, const std::string& server, std::size_t batch)
    : Failure(kind_of_error(error.code), error_text(error, server)),
      code_(error.code),
      batch_(batch) {}

Failure::Kind kind_of_error(std::string_view code) {
  using Kind = Failure::Kind;
  struct Meaning {
    std::string_view prefix;
    Kind kind;
  };
  // The first that fits.
  static constexpr Meaning meanings[] = {
      {"42501", Kind::rejected},     // insufficient privilege
      {"28", Kind::rejected},        // refused login, no entry in pg_hba.conf
      {"55P03", Kind::unreachable},  // lock_timeout
      {"25006", Kind::unreachable},  // read only: a standby
      {"25", Kind::unreachable},     // transactions that a timeout has ended
      {"3D", Kind::misconfigured},   // no such database
      {"3F", Kind::misconfigured},   // no such schema
      {"0A", Kind::misconfigured},   // not supported by this server
      {"0L", Kind::rejected},        //
      {"0P", Kind::rejected},        // no such role
      {"22", Kind::misconfigured},   // a name that the encoding lacks
      {"23", Kind::misconfigured},   // a constraint that is none of ours
      {"42", Kind::misconfigured},   // no such table or column
      {"54", Kind::misconfigured},   // beyond a limit of the server
      {"F0", Kind::misconfigured},   // its configuration
      {"P0", Kind::misconfigured},   // raised by a trigger that is none of ours
  };
  for (const auto& [prefix, kind] : meanings) {
    if (code.starts_with(prefix)) return kind;
  }
  return Kind::unreachable;
}

Notice session_error(Notice error) {
  struct Wording {
    std::string_view from;  // the codes of the pooler: of PgBouncer; pgcat; Supavisor
    std::string_view part;
    std::string_view code;
  };
  constexpr std::string_view any = "08P01 58000";
  // The first that fits.
  static constexpr Wording wordings[] = {
      {any, "database system is", "57P03"},  // starting up, shutting down
      {any, "no more connections allowed", "53300"},
      {any, "connections exceeded", "53300"},
      {any, "too many clients", "53300"},
      {any, "too many connections", "53300"},
      {any, "connection slots are reserved", "53300"},
      {any, "resources exhaustion", "53300"},
      {any, "shutting down", "57P01"},
      {any, "due to administrator command", "57P01"},
      {any, "is disabled", "57P03"},
      {any, "server down", "57P03"},
      {any, "Pool down", "57P03"},
      {any, "no such database", "3D000"},
      {any, "No pool configured", "3D000"},
      {any, "no such user", "28000"},
      {any, "role \"", "28000"},  // does not exist, is not permitted to log in
      {any, "does not exist", "3D000"},
      {any, "authentication failed", "28P01"},
      {any, "wrong password type", "28P01"},
      {any, "empty password", "28P01"},
      {any, "server signature", "28P01"},
      {any, "authentication method", "28000"},
      {any, "authentication mechanisms", "28000"},
      {any, "pg_hba.conf", "28000"},
      {any, "login rejected", "28000"},
      {any, "SSL required", "28000"},
      {any, "statement pooling mode", "0A000"},
      {any, "not allowed", "28000"},
      {any, "no username", "28000"},
      {any, "username too long", "28000"},
      {any, "password too long", "28000"},
      {any, "permission denied", "42501"},
      {any, "startup parameter", "0A000"},
      {any, "config error", "F0000"},
      {"42501", "denied to set", "0L000"},  // a role, a parameter
      {"XX000", "Tenant or user not found", "28000"},
      {"XX000", "Max client connections reached", "53300"},
  };
  for (const auto& [from, part, code] : wordings) {
    if (error.code.size() != 5 || from.find(error.code) == std::string_view::npos ||
        error.message.find(part) == std::string::npos) {
      continue;
    }
    error.code = code;
    break;
  }
  return error;
}

std::optional<net::Refusal::Reason> refusal_of(const Notice& error) {
  using Reason = net::Refusal::Reason;
  if (error.code == "53300") return Reason::overloaded;       // too many connections
  if (error.code.starts_with("57P0")) return Reason::absent;  // it starts or shuts down
  return std::nullopt;
}

std::string error_text(const Notice& error, const std::string& server) {
  return server + ": " + net::lower_first(printable(error.message, longest_text)) +
         remedy_for(error.code, error.message) +
         detail("SQLSTATE " + printable(error.code, longest_text));
}

void throw_refused(const Notice& error, const std::string& server) {
  if (const auto reason = refusal_of(error)) {
    throw net::Refusal(*reason, error_text(error, server));
  }
  throw SqlError(error, server);
}

const Row& row_at(const Result& result, std::size_t row, const std::string& server) {
  if (row < result.rows.size()) return result.rows[row];
  throw Failure::unreachable(server +
                             " does not speak the PostgreSQL protocol: a row is missing");
}

const std::optional<std::string>& column_at(const Row& row, std::size_t column,
                                            const std::string& server) {
  if (column < row.size()) return row[column];
  throw Failure::unreachable(
      server + " does not speak the PostgreSQL protocol: a column is missing");
}

bool is_conflict(const SqlError& error) {
  return error.code() == "40001" || error.code() == "40P01" || error.code() == "26000";
}

}  // namespace dlock::postgres
