// The log of runs, which people may edit and crashes may truncate.

#include "fuzz.hpp"
#include "store/local/text_files.hpp"

using namespace dlock;
using fuzz::require;

namespace {

bool is_line_of(std::string_view line, std::string_view log) {
  while (!log.empty()) {
    const auto end = log.find('\n');
    if (log.substr(0, end) == line) return true;
    if (end == std::string_view::npos) return false;
    log.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto log = fuzz::text_of(data, size);
  const auto history = record::history_of(log);
  for (const auto& [lock, run] : history.last_runs) {
    require(run.fence <= history.greatest_fence, "no fence is greater than the greatest");
    record::history_of(record::end_line(lock, run) + "\n");
    record::command_of(log, lock, run.fence);
  }

  for (const std::size_t most : {std::size_t{0}, std::size_t{200}, size}) {
    const auto shorter = record::shortened(log, most);
    // The first line may be kept for its fence.
    const auto others = std::string_view(shorter).substr(shorter.find('\n') + 1);
    require(shorter.size() <= most || others.size() <= most,
            "a log is as short as is wanted");
    require(record::shortened(shorter, most) == shorter, "a short log stays as it is");
    for (auto left = std::string_view(shorter); !left.empty();) {
      const auto end = left.find('\n');
      require(end != std::string_view::npos, "lines are whole");
      require(is_line_of(left.substr(0, end), log), "lines stay as they are");
      left.remove_prefix(end + 1);
    }
  }
  return 0;
}
