// The runs of a lock as `history` shows them to people.
#pragma once

#include <string>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// What the output is for.
struct Paper {
  bool color = false;
  std::size_t columns = 0;  // of the terminal; 0 if it is none
  bool blocks = false;      // whether it can show block characters
};

// That of standard output.
Paper paper_of_output(bool color);

// A line for each run, as of `now`. Where there is room for it, with a bar as long as the
// run, compared with the longest one; where there is little, without the moment at which
// it started.
std::string history_text(const std::vector<RunInfo>& runs, WallTime now,
                         const Paper& paper);

}  // namespace dlock
