// What PostgreSQL servers say of their place among the others, and what follows from it:
// which of them is the primary, and whether enough standbys acknowledge a commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/postgres/pg_wire.hpp"
#include "store/store_url.hpp"

namespace dlock::postgres {

// What is connected to a primary to follow its log.
struct PgFollower {
  enum class Kind { standby, other, unknown };  // other: acknowledges, is no standby
  Kind kind = Kind::unknown;
  std::string name;  // in lower case
};

struct PgStanding {
  bool is_standby = false;
  // Each promotion begins another one, with a greater number; 0: unknown.
  std::uint32_t timeline = 0;
  std::string started;        // when the server was: tells two servers apart
  std::int32_t pid = 0;       // of the process that executes; 0: unknown
  bool is_read_only = false;  // a transaction that does not say otherwise
  // If they were asked for.
  std::string standby_names;  // synchronous_standby_names
  std::optional<std::vector<PgFollower>> followers;
};

// Asks for it. A server that is only like PostgreSQL need not know these functions.
Statement standing_question(bool with_standbys);

// The reply; nothing if it is none.
std::optional<PgStanding> standing_from(const Result& reply);

// The server to use.
struct PrimaryChoice {
  std::optional<std::size_t> server;  // nothing: none is the primary
  std::string complaint;              // another one also says it is; empty: none does
};

// `standings`: of each server; nothing: it has not replied. Of two primaries the one with
// the greater timeline is chosen: the other one was the primary before a promotion.
PrimaryChoice chosen_primary(const std::vector<std::optional<PgStanding>>& standings,
                             const std::vector<std::string>& servers);

// The value of synchronous_standby_names.
struct AwaitedStandbys {
  unsigned count = 0;              // how many must acknowledge a commit
  std::vector<std::string> names;  // in lower case, all different
  bool may_be_any = false;         // * is among the names
};

// Nothing if it is not of the form that servers accept.
std::optional<AwaitedStandbys> awaited_standbys(std::string_view setting);

// Why a commit is not acknowledged by as many standbys as are wanted; nothing if it is.
std::optional<std::string> too_few_standbys(
    const Replicas& wanted, std::string_view setting,
    const std::optional<std::vector<PgFollower>>& connected);

}  // namespace dlock::postgres
