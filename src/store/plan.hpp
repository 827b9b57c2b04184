// What is common to the ways of getting to a store: one is described by a Plan of its
// folder, which is what a store URL says, taken apart.
#pragma once

#include <optional>
#include <string>

#include "lock/clock.hpp"
#include "net/tls_options.hpp"

namespace dlock {

// How many replicas must have acknowledged a grant or a renewal for it to count.
struct Replicas {
  bool all = false;    // each one that is up, and one at least
  unsigned count = 0;  // otherwise

  bool operator==(const Replicas&) const = default;
};

// What a quorum of independent servers has to have for a grant to count.
struct Terms {
  unsigned least_strength = 0;  // so many servers may forget it
  // A server that has been up for less may have forgotten what it has granted, and has no
  // vote; no lease is longer. 0: none forgets by a restart what it has acknowledged.
  milliseconds max_ttl{60'000};

  bool operator==(const Terms&) const = default;
};

// What is set besides the URL: how to log in, whom to trust, and what a yes takes.
struct Credentials {
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_file;  // goes before the password; empty: none
  net::TlsOptions tls;        // for a store that is spoken to over TLS

  // For sentinels, which are never shown the login above.
  std::optional<std::string> sentinel_user;
  std::optional<std::string> sentinel_password;
  std::string sentinel_password_file;
  bool sentinel_tls = true;  // where the servers are spoken to over TLS

  Replicas replicas;
  Terms terms;
};

// What a kind of store can do besides locks.
struct StoreFeatures {
  bool leases_run_out = false;  // Store::leases_run_out
  bool values = true;           // Store::values
  bool rates = true;            // Store::rates
  bool registers = true;        // Store::registers
};

}  // namespace dlock
