// PostgreSQL servers: their addresses, and how to log in there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_context.hpp"
#include "store/postgres/pg_url.hpp"
#include "util/clock.hpp"

namespace dlock::postgres {

// As sslmode of libpq, with two differences. `allow` is `prefer`. `require` demands a
// proof that the server is the one that is meant: its certificate, or the password by
// channel binding. verify-ca is verify-full.
enum class SslMode { disable, prefer, require, verify };

enum class ChannelBinding { disable, prefer, require };

// Whether a session can listen; `automatic` finds out if there is a pooler in between.
enum class Listening { automatic, on, off };
inline bool can_listen(Listening wanted, bool is_pooled) {
  return wanted == Listening::automatic ? !is_pooled : wanted == Listening::on;
}

struct PgTarget {
  std::string host;  // a name or an address; empty with a path
  std::uint16_t port = 5432;
  std::string path;  // of a unix socket, with its file name; empty over TCP
  std::string user;
  std::string database;
  // Reads the password, at each login; empty, or a result of nothing: there is none.
  // Throws Failure.
  std::function<std::optional<std::string>()> password;
  std::vector<std::string> password_command;  // takes precedence: see Login
  std::optional<std::string> printed;         // by it, for the next login
  std::string why_no_password;  // if there is one that must not be used; for messages
  SslMode ssl = SslMode::prefer;
  bool negotiates_tls =
      true;  // false: TLS from the first byte on (sslnegotiation=direct)
  ChannelBinding channel_binding = ChannelBinding::prefer;
  // Verify the certificate even if nothing depends on it, for PgServerFacts::is_proven.
  bool wants_to_know = false;
  net::TlsOptions tls;           // its `insecure`: no proof of the server is needed
  std::string application_name;  // any text; sent as application_name_from() makes it
  std::string options;           // of the user's URL; most poolers refuse them
  std::string schema = "dlock";  // letters, digits and _
  Listening listening = Listening::automatic;
  milliseconds timeout{0};  // after which unanswered data end the connection; 0: later

  // The server without secrets, for messages: "127.0.0.1:5432", "[::1]:5432", a path.
  std::string shown() const;
};

PgSurroundings own_surroundings();

// The servers of the URL, in its order, with what completed() takes from elsewhere. They
// have no application_name unless the URL has one. Throws Failure as completed().
std::vector<PgTarget> targets_of(const StoreUrl& url, milliseconds timeout = {},
                                 const PgSurroundings& surroundings = own_surroundings());

// The settings from variables and from the password file that are in force for the URL.
OutsideSettings outside_settings;

// Which password of a password file is meant.
struct PgPassEntry {
  std::string host;  // the directory, for a socket
  std::uint16_t port = 0;
  std::string database;
  std::string user;
};

// The password in the content of a ~/.pgpass; nothing if no line matches.
std::optional<std::string> password_for(const PgPassEntry& wanted,
                                        std::string_view content);

}  // namespace dlock::postgres
