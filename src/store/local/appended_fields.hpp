// Fields of a lock's state that were added after the first version. They follow all other
// fields and are written only if they are not empty. So this version reads what earlier
// ones wrote, and those can mostly read what this one writes.
#pragma once

#include <cstdint>
#include <vector>

#include "store/local/names.hpp"

namespace dlock::local {

struct AppendedFields {
  struct Leaver {
    std::uint32_t index = 0;
    Superseded newer;
  };

  struct Loser {
    std::uint32_t index = 0;
    Taker taken_by;
  };

  std::vector<std::uint32_t> superseding;  // waiters, by position
  std::vector<std::uint32_t> replacing;
  std::vector<Leaver> superseded;  // of the answered waiters
  std::vector<Loser> taken_from;   // holders

  bool is_empty() const {
    return superseding.empty() && replacing.empty() && superseded.empty() &&
           taken_from.empty();
  }
};

// The ttls of detached leases, if not the usual one. They follow Counts, which are then
// written even if they are zero.
struct LeaseTtl {
  std::uint32_t index = 0;  // of the holder
  milliseconds ttl{};
};

std::vector<LeaseTtl> lease_ttls_of(const State& state);
bool take_in(const std::vector<LeaseTtl>& ttls, State& state);

// Follows AppendedFields, which are then written even if empty.
struct Counts {
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;

  bool is_empty() const { return refused == 0 && superseded == 0; }
};

// Follows Counts, which are then written even if they are zero.
struct Callers {
  struct Caller {
    std::uint32_t index = 0;
    std::int32_t pid = 0;
  };

  std::vector<Caller> of_waiters;
};

Callers callers_of(const State& state);
bool take_in(const Callers& callers, State& state);

AppendedFields appended_fields_of(const State& state);

// Adds the fields to the state; false if they do not fit it.
bool take_in(const AppendedFields& later, State& state);

}  // namespace dlock::local
