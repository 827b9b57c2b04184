// The state of a lock as JSON, for stores that several versions of dlock share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "rules/state.hpp"

namespace dlock::record {

// The greatest format of a state that this version reads. A state is written with the
// lowest one that can express it. What a format does not name is ignored, and is lost
// when the state is written.
constexpr int greatest_state_format = 1;
int format_of(const rules::State& state);

// A state that is written is at most so long.
constexpr std::size_t longest_state = 900'000;

// The state in ASCII, without its finished runs and the number of refused claims. Times
// are kept in microseconds. Sessions are those of the tokens, so they are left out. If
// the text would be longer than `longest_state`, what holders run is left out as well;
// nothing if that does not suffice.
std::optional<std::string> state_json(const rules::State& state);
std::string runs_json(const std::vector<RunInfo>& runs);

// The inverse; nothing if the text is not what these functions write, or the state is not
// sound (record/state_bytes.hpp).
std::optional<rules::State> state_from_json(std::string_view text);
std::optional<std::vector<RunInfo>> runs_from_json(std::string_view text);

}  // namespace dlock::record
