// The states of locks and of limits as the bytes of their files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rules/limit.hpp"
#include "rules/state.hpp"

namespace dlock::record {

// The sessions of an embedded store: bytes of its file `sessions`.
constexpr rules::Session first_session = 1u << 16;
constexpr rules::Session last_session = (rules::Session{1} << 62u) - 1;
constexpr bool is_session(rules::Session session) {
  return session >= first_session && session < last_session;
}

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

}  // namespace dlock::record
