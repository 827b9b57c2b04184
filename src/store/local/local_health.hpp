// Examines the directory of a local store. It changes nothing and creates nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "store/checks.hpp"

namespace dlock::local {

// The room on the file system, as statvfs(3) has it for this user. `files`: nothing where
// they are not counted.
void judge_space(std::uint64_t bytes, std::optional<std::uint64_t> files,
                 CheckReport& say);

}  // namespace dlock::local
