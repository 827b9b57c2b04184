// What a TLS client trusts and how it identifies itself, with OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "net/tls_options.hpp"

namespace dlock::net {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

// The settings of a session with TLS 1.2 or later. Reads the files of the plan, and never
// asks on a terminal. Throws Failure: misconfigured, with its name and what is wrong, for
// a file that cannot be used; rejected for one that others can change or read.
TlsContext tls_context(const TlsOptions& plan);

// OpenSSL's reason for the first error since its queue was cleared, which caused the
// others.
std::string reason_of_openssl();

}  // namespace dlock::net
