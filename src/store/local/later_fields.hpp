// What the state of a lock did not have from the start. It stands behind all else, and
// only where there is any of it: so what earlier versions have written can be read, and
// mostly they can read what is written now.
#pragma once

#include <cstdint>
#include <vector>

#include "store/local/names.hpp"

namespace dlock::local {

struct LaterFields {
  struct Leaver {
    std::uint32_t index = 0;
    Superseded newer;
  };

  struct Loser {
    std::uint32_t index = 0;
    TakenBy taken_by;
  };

  std::vector<std::uint32_t> superseding;  // waiters, by their place
  std::vector<std::uint32_t> replacing;
  std::vector<Leaver> superseded;  // of the answered
  std::vector<Loser> taken_from;   // holders

  bool is_empty() const {
    return superseding.empty() && replacing.empty() && superseded.empty() &&
           taken_from.empty();
  }
};

// Behind those, which are there then, too.
struct Counts {
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;

  bool is_empty() const { return refused == 0 && superseded == 0; }
};

LaterFields later_fields_of(const State& state);

// False if they are not of this state.
bool take_in(const LaterFields& later, State& state);

}  // namespace dlock::local
