// How a connection is encrypted.
#pragma once

#include <string>

namespace dlock::net {

struct TlsOptions {
  std::string ca;           // file of CA certificates; empty: the system's
  std::string certificate;  // client certificate, with its key; empty: none
  std::string key;
  bool insecure = false;  // accept any certificate
  std::string name;       // name that the certificate must have; empty: the host
  std::string protocol;   // ALPN name of the protocol; empty: none
};

}  // namespace dlock::net
