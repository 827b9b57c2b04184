// The runs of one lock that are over, as bytes in the database.
//
// A run is added by every release, so each record has a checksum of its own and the old
// ones are carried over as they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"

namespace dlock::local {

// `records` and `run` before them, without those beyond the last runs_kept. What is no
// record is dropped, with all behind it.
std::string with_run(std::string_view records, const RunInfo& run);

// The last that ended first; nothing if the bytes are not what with_run wrote.
std::optional<std::vector<RunInfo>> runs_from(std::string_view records);

}  // namespace dlock::local
