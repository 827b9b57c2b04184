// The states of locks and of limits: as the bytes of files, and as JSON for stores that
// several versions of dlock share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "rules/limit.hpp"
#include "rules/state.hpp"

namespace dlock::record {

// The sessions of an embedded store: bytes of its file `sessions`.
constexpr rules::Session first_session = 1u << 16;
constexpr rules::Session last_session = (rules::Session{1} << 62u) - 1;
bool is_session(rules::Session session);

// The state of a lock as bytes.
std::string encoded(const rules::State& state);

// How many more bytes the state may need once its runs have ended and its waiters have
// been promised the lock or deduplicated.
std::size_t room_for_ends(const rules::State& state);

// Whether it is safe to compute with: no list is too long, no time before the epoch, no
// fence invalid.
bool is_sound(const rules::State& state);

// The inverse of encoded(); nothing if the bytes were not written by `encoded` or the
// state is not sound.
std::optional<rules::State> decoded(std::string_view bytes);

// The same for the state of a limit. The hosts of its waiters are not kept: all of them
// are this one.
std::string encoded(const rules::LimitState& state);
std::optional<rules::LimitState> decoded_limit(std::string_view bytes);

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
// sound.
std::optional<rules::State> state_from_json(std::string_view text);
std::optional<std::vector<RunInfo>> runs_from_json(std::string_view text);

}  // namespace dlock::record
