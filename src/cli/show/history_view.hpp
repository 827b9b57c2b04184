// What `dlock history` prints.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "util/clock.hpp"
#include "util/json.hpp"

namespace dlock {

// How the text is formatted.
struct HistoryFormat {
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0 if the output is not a terminal
  bool blocks = false;      // whether the output can show block characters
};

// The format for standard output.
HistoryFormat format_of_output(bool color);

struct RunOfLock {
  std::string lock;
  RunInfo run;
};

// Whether each run is shown with the name of its lock.
enum class Names { shown, left_out };

Json json_of(const RunOfLock& run, Names names);

// One line per run, as of `now`. On a wide terminal each line has a bar that shows the
// run's duration relative to the longest one. On a narrow one the start time and the
// owner are left out.
std::string history_text(const std::vector<RunOfLock>& runs, WallTime now,
                         const HistoryFormat& format, Names names);

// Whether the last successful run of a lock ended within `span`.
struct SuccessWithin {
  milliseconds span{};
  bool is_within = false;
  LockInfo lock;
};

SuccessWithin success_within(LockInfo lock, milliseconds span);
Json json_of(const SuccessWithin& answer, const std::string& store);

// "job succeeded 3m12s ago, at 2026-11-21T04:00:00.250Z on web1", "job never succeeded in
// local:/var/lib/dlock"; if it did not, also what is in progress.
std::string text_of(const SuccessWithin& answer, const std::string& store);

// The same as the line of a monitoring plugin (--nagios): "DLOCK OK - ... |
// age=192s;;3600;0 duration=2.25s". Nothing in it but dlock's own bar begins the
// performance data.
std::string plugin_line(const SuccessWithin& answer, const std::string& store);

}  // namespace dlock
