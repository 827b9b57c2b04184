// Asks PostgreSQL servers for what matters to locks, and judges them: the table of the
// checks.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/checks.hpp"
#include "store/postgres/pg_standing.hpp"
#include "store/postgres/pg_wire.hpp"

namespace dlock::postgres {

class PgConnection;

// A server that the URL names.
struct HostFacts : ServerFacts {
  std::shared_ptr<PgConnection> connection;  // on which it has answered
  PgStanding standing;
  bool is_local = false;      // reached by a unix socket, or a loopback address
  bool is_encrypted = false;  // by TLS
  // How the server has proven to be the one that is meant: "its certificate"; empty: it
  // has not.
  std::string proof;
  std::string login;  // the method: "SCRAM-SHA-256"; empty: none was needed
};

// What the primary has reported; fields are empty where it did not. The failure is why it
// could not be examined completely.
struct PgFacts : ServerFacts {
  std::vector<HostFacts> hosts;        // in the order of the URL
  std::optional<std::size_t> primary;  // the one of these that is used
  std::string complaint;               // another one also says that it is the primary
  std::string user;
  std::string database;
  std::string schema;
  std::string schema_command;  // for the owner
  Replicas replicas;

  std::string version;     // "15.18 (Debian ...)"
  bool is_pooled = false;  // sessions are shared by a pooler
  bool listens = true;     // listen=off in the URL, or a pooler: false
  std::string deaf;        // why no notification arrives; empty: it does
  // The rows with which it has answered the question of a check; none where it refuses
  // the question, as other products may.
  std::map<std::string, std::vector<Row>, std::less<>> answers;

  std::vector<Row> rows(std::string_view check) const;
  // A value of the first row; empty, or 0, if it is NULL or missing.
  std::string said(std::string_view check, std::size_t column) const;
  std::int64_t number(std::string_view check, std::size_t column) const;
};

Examination examination_of(const PgFacts& facts);

}  // namespace dlock::postgres
