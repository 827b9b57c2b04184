// How a connection is encrypted.
#pragma once

#include <string>

namespace dlock::net {

struct TlsOptions {
  std::string ca;           // a file of certificates; empty: the system's
  std::string certificate;  // of this client, with its key; empty: none
  std::string key;
  bool insecure = false;  // accept any certificate
  std::string name;       // whom the certificate must name; empty: the host
  std::string protocol;   // that is spoken over it, by its name in ALPN; empty: not said
};

}  // namespace dlock::net
