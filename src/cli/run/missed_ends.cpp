#include "cli/run/missed_ends.hpp"

#include "record/run_lines.hpp"
#include "store/directory.hpp"
#include "store/local/text_files.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

// Beside the files of the embedded store, and as safe.
std::optional<Directory> folder_of_ends(Directory::Missing missing) {
  const auto path = default_directory(surroundings());
  if (!path) return std::nullopt;
  const auto directory = Directory::open(*path, true, missing);
  return directory ? directory->folder("missed-ends", missing) : std::nullopt;
}

LockName in_store(const std::string& store, const LockName& lock) {
  return {store + " " + lock.name_space, lock.name};
}

}  // namespace

void note_missed_end(const std::string& store, const LockName& lock, const RunInfo& run) {
  try {
    const auto folder = folder_of_ends(Directory::Missing::create);
    if (!folder) return;
    local::RunsLog log(*folder);
    const auto line = record::end_line(in_store(store, lock), run) + "\n";
    if (log.append(line) == local::RunsLog::Length::too_long) log.shorten();
  } catch (const Failure&) {
  }
}

void MissedEnds::read() {
  log_.emplace();
  try {
    const auto folder = folder_of_ends(Directory::Missing::accept);
    if (folder) log_ = local::RunsLog(*folder).text();
  } catch (const Failure&) {
  }
}

void MissedEnds::complete(const LockName& lock, RunInfo& run) {
  if (run.outcome != "vanished") return;
  if (!log_) read();
  const auto end = record::end_of(*log_, in_store(store_, lock), run.fence);
  if (!end) return;
  run.outcome = end->outcome;
  run.reason = end->reason;
  run.exit_code = end->exit_code;
  run.signal = end->signal;
  run.ended = end->ended;
  run.duration = end->duration;
}

}  // namespace dlock
