// What the Plans of all kinds of store share. Each kind has a Plan in its folder: the
// parsed store URL.
#pragma once

#include <optional>
#include <string>

#include "net/tls_options.hpp"
#include "store/address_map.hpp"
#include "util/clock.hpp"

namespace dlock {

// How many replicas must acknowledge a grant or a renewal for it to count.
struct Replicas {
  bool all = false;    // every replica that is up, and at least one
  unsigned count = 0;  // if not `all`

  bool operator==(const Replicas&) const = default;
};

// The conditions for a grant of a quorum of independent servers.
struct QuorumTerms {
  unsigned least_strength = 0;  // how many servers must be able to forget it safely
  // A server that has been up for less may have forgotten a grant and has no vote; no
  // lease is longer. 0: no server forgets an acknowledged grant by a restart.
  milliseconds max_ttl{60'000};

  bool operator==(const QuorumTerms&) const = default;
};

// Settings besides the URL: the login, TLS, and the conditions for a grant.
struct Credentials {
  std::optional<std::string> user;
  std::optional<std::string> password;
  std::string password_file;  // takes precedence over the password; empty: none
  net::TlsOptions tls;        // for a store over TLS

  // For sentinels, which never receive the login above.
  std::optional<std::string> sentinel_user;
  std::optional<std::string> sentinel_password;
  std::string sentinel_password_file;
  bool sentinel_tls = true;  // if the servers are used over TLS

  Replicas replicas;
  QuorumTerms terms;
  AddressMap addresses;
};

// What a kind of store supports besides locks.
struct StoreFeatures {
  bool leases_expire = false;  // Store::leases_expire
  bool values = true;          // Store::values
  bool rates = true;           // Store::rates
  bool registers = true;       // Store::registers
};

}  // namespace dlock
