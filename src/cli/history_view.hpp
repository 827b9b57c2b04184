// The runs of a lock as `history` shows them to people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "util/json.hpp"

namespace dlock {

// What the output is for.
struct HistoryFormat {
  bool color = false;
  std::size_t columns = 0;  // of the terminal; 0 if it is none
  bool blocks = false;      // whether it can show block characters
};

// That of standard output.
HistoryFormat format_of_output(bool color);

struct RunOfLock {
  std::string lock;
  RunInfo run;
};

// Whether it is told of each run which lock's it is.
enum class Names { shown, left_out };

Json json_of(const RunOfLock& run, Names names);

// A line for each run, as of `now`. Where there is room for it, with a bar as long as the
// run, compared with the longest one; where there is little, without the moment at which
// it started, and whose it is.
std::string history_text(const std::vector<RunOfLock>& runs, WallTime now,
                         const HistoryFormat& format, Names names);

// Whether the last success of a lock ended less than some time ago.
struct SuccessWithin {
  milliseconds span{};
  bool is_within = false;
  std::optional<RunInfo> last;
  WallTime now{};
};

SuccessWithin success_within(const LockInfo& lock, milliseconds span);
Json json_of(const SuccessWithin& answer, const std::string& lock);

// "job succeeded 3m12s ago, at 2026-11-21T04:00:00.250Z on web1", "job never succeeded"
std::string text_of(const SuccessWithin& answer, const std::string& lock);

}  // namespace dlock
