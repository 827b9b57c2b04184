// TLS over a socket, by OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/progress.hpp"
#include "net/tls_options.hpp"

namespace dlock::net {

// One session, as a client. TLS 1.2 or later; unless the plan says otherwise, the
// server's certificate has to be of an authority that is trusted and to name `host`
// among its alternative names, with wildcards for a whole label at most.
class Tls {
 public:
  // On a connected socket of the caller's. Nothing of OpenSSL is set up before the first
  // one. Throws Failure (misconfigured) for files of the plan that cannot be used.
  Tls(const TlsOptions& plan, const std::string& host, int fd, std::string server);
  ~Tls();

  // Each throws Failure for what is TLS's own: rejected for a certificate, theirs or
  // ours, else unreachable.
  Progress shake_hands();
  Progress write(std::string_view bytes);
  Progress read(char* buffer, std::size_t size);

  // As Stream::is_quiet().
  bool is_quiet();

 private:
  static void forget_errors();
  Progress progress_of(int result);

  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };

  std::string server_;
  int fd_;  // where it is, the session reads it
  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<SSL, FreeSession> session_;
};

}  // namespace dlock::net
