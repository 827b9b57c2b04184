#include "store/postgres/pg_errors.hpp"

#include "net/net_failures.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr std::size_t longest_text = 200;

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
  };
  for (const auto& [prefix, kind] : meanings) {
    if (code.starts_with(prefix)) return kind;
  }
  return Kind::unreachable;
}

Notice login_error(Notice error) {
  if (error.code != "08P01") return error;
  struct Wording {
    std::string_view part;
    std::string_view code;
  };
  static constexpr Wording wordings[] = {
      {"no more connections allowed", "53300"},
      {"no such database", "3D000"},
      {"does not exist", "3D000"},
      {"no such user", "28000"},
      {"authentication failed", "28P01"},
      {"unsupported startup parameter", "0A000"},
  };
  for (const auto& [part, code] : wordings) {
    if (error.message.find(part) == std::string::npos) continue;
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
         detail("SQLSTATE " + printable(error.code, longest_text));
}

bool is_conflict(const SqlError& error) {
  return error.code() == "40001" || error.code() == "40P01";
}

}  // namespace dlock::postgres
