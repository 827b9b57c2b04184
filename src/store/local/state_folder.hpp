// The folder with the state of all locks since boot, and its creation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/run_lines.hpp"
#include "store/directory.hpp"
#include "store/local/record_file.hpp"
#include "store/local/sessions.hpp"
#include "util/failure.hpp"

namespace dlock::local {

// The folder's file `head`: what does not belong to a single lock.
constexpr const char* head_file = "head";
struct FolderHead {
  std::uint64_t fence_floor = 0;  // new fences are greater: the greatest of earlier boots
                                  // and of removed locks
  std::int64_t swept = 0;  // wall clock, microseconds: when unused locks were removed
};

// Throws Failure (misconfigured) while a process may still hold a lock in the state of
// another epoch, whose times cannot be compared with ours.
void refuse_if_used_elsewhere(const Directory& directory, const SessionsFile& sessions);

// Creates the folder of this epoch atomically, with the last runs and fences from the log
// of runs, and removes the folders of other epochs. The caller holds setup_mutex and has
// checked that the folder does not exist. It also holds all_locks_mutex, so that nothing
// is granted in another epoch between the check and the removal. Throws Failure:
// `misconfigured` as above, or while a process may hold a lock in a folder that was
// removed.
Directory make_state_folder(const Directory& directory, const SessionsFile& sessions);

// Throws Failure if it is missing or damaged.
FolderHead head_of(const Directory& folder);

// Writes a new head in the place of one that is missing or damaged, and returns it. The
// caller holds upkeep_mutex.
FolderHead mend_head(const Directory& folder, Fence greatest_in_log);

// The state of a lock without holders and waiters, as the log of runs describes it.
State state_from(const record::History& history, const LockName& lock);

// The caller holds upkeep_mutex.
void set_head(const Directory& folder, const FolderHead& head);

// The files of locks and limits that were not used for long. Raises the fence floor of
// `head` above their fences, and sets when it was swept. The caller holds upkeep_mutex,
// and stores the head before it removes any of them: later grants of the same names need
// greater fences.
std::vector<std::string> find_unused(const Directory& folder,
                                     const SessionsFile& sessions, FolderHead& head);

// Removes one of them, unless it was used since or its fences reach beyond `floor`.
void drop_if_unused(const Directory& directory, const Directory& folder,
                    SessionsFile& sessions, const std::string& file, std::uint64_t floor);

}  // namespace dlock::local
