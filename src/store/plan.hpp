// What is common to the ways of getting to a store: one is described by a Plan of its
// folder, which is what a store URL says, taken apart.
#pragma once

#include <optional>
#include <string>

#include "net/tls_options.hpp"

namespace dlock {

// What is set for a login besides the URL.
struct Credentials {
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_file;  // goes before the password; empty: none
  net::TlsOptions tls;        // for a store that is spoken to over TLS
};

// What a kind of store can do besides locks.
struct StoreFeatures {
  bool leases_run_out = false;  // Store::leases_run_out
  bool values = true;           // Store::values
  bool rates = true;            // Store::rates
  bool registers = true;        // Store::registers
};

}  // namespace dlock
