// TLS over a socket, with OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/budget.hpp"
#include "net/tls_context.hpp"

namespace dlock::net {

// One TLS session, as a client, with TLS 1.2 or later. Unless the plan says otherwise,
// the server's certificate has to be issued by a trusted authority and to contain `host`
// as an alternative name; a wildcard may only stand for a whole part of it.
class Tls {
 public:
  // Uses the caller's connected socket. OpenSSL is not initialized before the first
  // session. Throws Failure (misconfigured) for files of the plan that cannot be used.
  Tls(const TlsOptions& plan, const std::string& host, int fd, std::string server);
  ~Tls();

  // Each throws Failure for TLS errors: `rejected` if either side's certificate is not
  // accepted, else `unreachable`.
  Progress handshake();
  Progress write(std::string_view bytes);
  Progress read(char* buffer, std::size_t size);

  // As Stream::is_quiet().
  bool is_quiet();

  // After the handshake.
  TlsPeer peer() const;
  // As Stream::distrust().
  std::string distrust(TlsOptions plan) const;

 private:
  static void forget_errors();
  Progress progress_of(int result);

  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };

  std::string server_;
  int fd_;  // the session reads it at this address
  TlsContext context_;
  std::unique_ptr<SSL, FreeSession> session_;
};

}  // namespace dlock::net
