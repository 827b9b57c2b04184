// The folder with the state of all locks since the boot, and how it comes to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/local/directory.hpp"
#include "store/local/names.hpp"
#include "store/local/sessions.hpp"
#include "util/failure.hpp"

namespace dlock::local {

// What is known besides single locks: the file `head` of the folder.
struct FolderHead {
  std::uint64_t fence_floor = 0;  // every fence is greater: those of earlier boots, and
                                  // of locks that were dropped
  std::int64_t swept = 0;  // wall clock, microseconds: when unused locks were dropped
};

// The folder of this epoch; nothing if nobody has made it yet.
std::optional<Directory> open_state_folder(const Directory& directory);

// Makes it, whole or not at all, with what the log of runs knows from before, and removes
// those of other epochs. The caller holds setup_gate, and has seen that there is none.
// Throws Failure: `misconfigured` while somebody may still live by the state of another
// epoch, whose moments cannot be compared with ours, or by one that was removed.
Directory make_state_folder(const Directory& directory, const Gate& gate);

// Throws Failure if there is no sound one.
FolderHead head_of(const Directory& folder);

// For whoever holds upkeep_gate.
void set_head(const Directory& folder, const FolderHead& head);

}  // namespace dlock::local
