// How a connection is encrypted.
#pragma once

#include <functional>
#include <string>

namespace dlock::net {

struct TlsOptions {
  std::string ca;           // file of CA certificates; empty: the system's
  std::string certificate;  // client certificate, with its key; empty: none
  std::string key;
  // Reads the pass phrase of the key, at each connection; empty: the key has none.
  std::function<std::string()> key_password;
  bool insecure = false;  // accept any certificate
  std::string name;       // name that the certificate must have; empty: the host
  std::string protocol;   // ALPN name of the protocol; empty: none
};

}  // namespace dlock::net
