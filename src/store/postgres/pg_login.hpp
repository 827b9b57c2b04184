// The client's side of a login to PostgreSQL, as functions on values: SCRAM-SHA-256 with
// and without channel binding, MD5, and the password itself; and what the server tells
// of itself meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/postgres/pg_scram.hpp"
#include "store/postgres/pg_target.hpp"

namespace dlock::postgres {

// The connection that a login goes over.
struct LoginChannel {
  bool is_encrypted = false;
  std::string binding;  // tls-server-end-point of RFC 5929; empty: not to be had
  // Whether the server has to be proven to be the one that is meant.
  bool needs_proof = false;
  // Tells why the channel proves nothing: others may read it, or its other end may be
  // another one. Empty if it is a unix socket, or TLS with a trusted certificate. Takes a
  // while, so that it is only called if something depends on it.
  std::function<std::string()> distrust;
  // Whether that is known to be empty.
  bool is_trusted = false;
};

// What a login has told, and what the server has changed since.
struct PgServerFacts {
  std::string server_version;  // "15.18 (Debian 15.18-0+deb12u1)"
  // Of the server; nothing before version 14, and from some poolers.
  std::optional<bool> in_hot_standby;
  // Of BackendKeyData; behind a pooler not that of the process that executes.
  std::int32_t pid = 0;
  bool is_encrypted = false;
  // Whether the server is the one that is meant: by its certificate, by channel binding,
  // or because it is a socket of this machine.
  bool is_proven = false;
  std::string method;  // of the login: "trust", "md5", "scram-sha-256-plus", …
  std::map<std::string, std::string> parameters;  // that the server reports, cut

  // Takes what the server reports; a bounded amount of it.
  void take(const std::string& name, const std::string& value);
};

// The oldest version of PostgreSQL that dlock works with; and the one of a server,
// from what it reports ("15.18 (Debian …"), 0 if that is none.
inline constexpr unsigned oldest_major_version = 12;
unsigned major_version(std::string_view reported);

// Parameters for the startup message. Poolers refuse most of the others.
std::vector<std::pair<std::string, std::string>> startup_parameters(
    const PgTarget& target);

// Throws Failure (misconfigured) unless the server, by what it reports of itself, is a
// PostgreSQL that dlock works with.
void check_product(const PgServerFacts& session, const PgTarget& target);

// The number that the body of a message begins with; nothing if it is too short.
std::optional<std::uint32_t> first_number(std::string_view body);

// One login. All that it throws are Failures: rejected, if the password is missing or may
// not be sent this way, or the server is not proven to know it; misconfigured, if the
// server wants a method that dlock does not have; unreachable, for messages that make no
// sense here.
class PgLogin {
 public:
  // `server` is for messages. `salted` must outlive the login.
  PgLogin(std::string server, const PgTarget& target, std::optional<std::string> password,
          LoginChannel channel, SaltedPassword& salted);

  struct Answer {
    std::string bytes;     // a message; empty: none
    bool is_last = false;  // requests may follow it
  };

  // Answers an authentication request, whose body this is.
  Answer answer(std::string_view body);

  // Whether the server has accepted the login.
  bool is_done() const { return stage_ == Stage::done; }
  // Whether the server has proven that it knows the password, and that no attacker stands
  // in between.
  bool is_bound() const { return is_done() && is_bound_; }
  const std::string& method() const { return method_; }

 private:
  enum class Stage { begun, sent_password, scram_first, scram_final, scram_proven, done };

  Answer accept();
  Answer send_password();
  Answer send_md5(std::string_view salt);
  Answer begin_scram(std::string_view mechanisms);
  Answer continue_scram(std::string_view from_server);
  Answer end_scram(std::string_view from_server);
  [[noreturn]] void refuse(std::uint32_t request) const;
  const std::string& password() const;
  void begin(const std::string& method, bool is_bound);
  void demand(Stage stage) const;
  void demand_proof() const;
  [[noreturn]] void make_no_sense() const;

  std::string server_;
  std::string user_;
  ChannelBinding binding_;
  std::optional<std::string> password_;
  std::string how_to_set_password_;
  LoginChannel channel_;
  SaltedPassword& salted_;
  std::optional<Scram> scram_;
  Stage stage_ = Stage::begun;
  bool is_bound_ = false;
  std::string method_ = "trust";
};

}  // namespace dlock::postgres
