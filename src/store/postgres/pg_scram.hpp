// SCRAM-SHA-256, the client's side, as functions on values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "util/failure.hpp"

namespace dlock::postgres {

// What SCRAM derives from a password, which takes milliseconds. Kept for the next login.
struct SaltedPassword {
  std::string password;
  std::string salt;
  std::uint32_t iterations = 0;
  std::string key;
};

// `password` as SASLprep (RFC 4013) writes it. The same, as PostgreSQL does it, if it is
// no UTF-8 or contains what SASLprep prohibits.
std::string prepared_password(const std::string& password);

// One exchange of SCRAM-SHA-256 (RFC 5802, RFC 7677).
class Scram {
 public:
  // `header`: "n,,", "y,," or "p=tls-server-end-point,,"; with the last one `binding` is
  // the data of the channel. `user` is empty for PostgreSQL, which knows it already.
  // `nonce`: printable, without commas. `server` is for messages.
  Scram(std::string server, std::string header, std::string binding,
        const std::string& user, std::string nonce);

  std::string first_message() const { return header_ + bare_; }

  // The answer to the server's first message. Throws Failure (unreachable) if that is
  // malformed, only repeats our nonce, or demands so many iterations that they would hold
  // up everything else.
  std::string final_message(std::string_view from_server, const std::string& password,
                            SaltedPassword& salted);

  // Throws Failure unless the server's last message proves that it knows the password:
  // unreachable if it is malformed, else rejected.
  void check_server(std::string_view from_server) const;

 private:
  Failure malformed(const std::string& what) const;

  std::string server_;
  std::string header_;
  std::string binding_;
  std::string bare_;  // the first message without its header
  std::string nonce_;
  std::string server_signature_;  // that the server has to send
};

}  // namespace dlock::postgres
