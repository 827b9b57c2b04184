// Judges PostgreSQL servers: findings from the facts about them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/postgres/pg_trust.hpp"
#include "store/store_url.hpp"
#include "util/failure.hpp"

namespace dlock::postgres {

// A server that the URL names.
struct HostFacts {
  std::string server;              // its address, for messages
  std::optional<Failure> failure;  // why it did not answer
  bool was_reached = false;        // the failure came after the connection was made
  bool is_standby = false;

  // How it was reached.
  bool is_local = false;      // by a unix socket, or a loopback address
  bool is_encrypted = false;  // by TLS
  // How the server has proven to be the one that is meant: "its certificate"; empty: it
  // has not.
  std::string proof;
  std::string login;  // the method: "SCRAM-SHA-256"; empty: none was needed
};

// A table of the schema, and what is missing there.
struct TableFacts {
  std::string name;
  bool exists = false;
  std::vector<std::string> missing_columns;
  std::vector<std::string> missing_rights;  // "INSERT"
  bool hides_rows = false;                  // row-level security applies to the user
};

// Sessions, and how many are allowed; nothing: no limit, or not reported.
struct SessionFacts {
  std::int64_t used = 0;   // on the server
  std::int64_t dlock = 0;  // of these, those that say they are dlock's
  std::optional<std::int64_t> limit;
  std::string limited_by;  // "max_connections"
};

// A time limit that the server sets for sessions of this role.
struct TimeoutFacts {
  std::string name;  // "statement_timeout"
  milliseconds limit{0};
};

// What the primary has reported; fields are empty where it did not.
struct PgFacts {
  std::vector<HostFacts> hosts;        // in the order of the URL
  std::optional<std::size_t> primary;  // the one of these that is used
  std::string complaint;               // another one also says that it is the primary
  std::string user;
  std::string database;
  std::string schema;
  std::string schema_command;  // for the owner
  milliseconds timeout{2000};  // of a step
  Replicas replicas;
  int trips_to_renew = 3;  // round trips of a renewal that has to connect first

  std::optional<Failure> failure;  // why it could not be examined completely
  std::string version;             // "15.18 (Debian ...)"
  int version_number = 0;          // 150018
  std::string product;             // what version() says: "PostgreSQL 15.18 on ..."
  bool is_pooled = false;          // sessions are shared by a pooler
  bool listens = true;             // listen=off in the URL, or a pooler: false

  bool has_schema = false;
  bool may_use_schema = false;
  bool may_create = false;  // what is missing: the schema, or tables in it
  // The owners that could run code with the rights of the role, and hidden rows.
  std::vector<Distrust> distrusted;
  std::vector<std::string>
      strangers;           // what dlock has not made there: "trigger t on lock"
  bool has_admit = false;  // the function for transactions of applications
  std::vector<TableFacts> tables;
  std::optional<std::int64_t> format;          // the newest in the table of locks
  std::optional<std::int64_t> greatest_fence;  // in that table
  std::string greatest_fence_of;               // the name of that lock

  std::optional<Failure> listen_failure;
  bool was_notified = false;

  std::optional<bool> fsync;
  std::optional<bool> full_page_writes;
  std::string standby_names;  // synchronous_standby_names
  // Why it does not wait for as many standbys as --replicas asks for, if so.
  std::optional<std::string> too_few_standbys;
  std::vector<TimeoutFacts> timeouts;
  SessionFacts sessions;
  std::optional<std::chrono::seconds> oldest_snapshot;   // of sessions that we may see
  std::optional<std::int64_t> oldest_snapshot_age;       // in transactions, of all
  std::optional<std::chrono::microseconds> clock_ahead;  // of this machine's
  std::vector<std::chrono::nanoseconds> round_trips;
};

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const PgFacts& facts);

}  // namespace dlock::postgres
