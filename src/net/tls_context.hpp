// How a connection is encrypted: what a TLS client trusts, and how it identifies itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace dlock::net {

struct TlsOptions {
  std::string ca;           // file of CA certificates; empty: the system's
  std::string certificate;  // client certificate, with its key; empty: none
  std::string key;
  // Reads the pass phrase of the key, at each connection; empty: the key has none.
  std::function<std::string()> key_password;
  bool insecure = false;  // accept any certificate
  // Complete the handshake with any certificate; Stream::distrust() verifies it.
  bool verifies_later = false;
  std::string name;      // name that the certificate must have; empty: the host
  std::string protocol;  // ALPN name of the protocol; empty: none
};

// What a handshake has told about the server.
struct TlsPeer {
  // Its certificate as logins bind themselves to it (tls-server-end-point, RFC 5929);
  // empty if the RFC has no rule for it.
  std::string binding;
  std::string protocol;  // that it has chosen; empty: none
};

struct FreeContext {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, FreeContext>;

// The settings of a session with TLS 1.2 or later. Reads the files of the plan, and never
// asks on a terminal. Throws Failure: misconfigured, with its name and what is wrong, for
// a file that cannot be used; rejected for one that others can change or read.
TlsContext tls_context(const TlsOptions& plan);

// OpenSSL's reason for the first error since its queue was cleared, which caused the
// others.
std::string reason_of_openssl();

}  // namespace dlock::net
