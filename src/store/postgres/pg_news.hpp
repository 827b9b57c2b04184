// What steps tell other sessions: the channels, and the events on them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/history.hpp"
#include "rules/state.hpp"
#include "store/postgres/pg_wire.hpp"

namespace dlock::postgres {

// Of a party that waits or holds.
std::string channel_of(rules::Session party);

// Of the events in a namespace.
std::string events_channel(const std::string& schema, const std::string& name_space);

// Wakes the parties of `wake`: an empty notification is a hint to ask. Those of
// `in_front` learn that they are among the first waiters now.
Batch to_wake(const std::vector<rules::Session>& wake,
              const std::vector<rules::Session>& in_front);
inline constexpr std::string_view in_front_payload = "in front";

// The events as an array of texts; in ASCII, because the database may have another
// encoding.
std::string lines_of(const std::vector<Event>& events);

// Records the events $2 of the namespace $1 for those who watch it: "INSERT ... FROM ",
// and what the rows are joined with.
std::string to_record(const std::string& schema, const std::string& lines);

// Makes those who watch the namespace look.
Statement to_hint(const std::string& schema, const std::string& name_space);

// Both, behind a step that did not know of a watcher.
Batch to_tell(const std::string& schema, const LockName& lock,
              const std::vector<Event>& events);

// A step records its events while a row says that there is a watcher: for this time from
// when that began, or renewed the row.
inline constexpr std::chrono::seconds watcher_lasts{60};

// That the namespace $1 has a watcher.
std::string is_watched(const std::string& schema);

// Whether there is one; or was, that began before `until`, at most some seconds ago.
Statement watcher_question(const std::string& schema, const std::string& name_space,
                           std::optional<WallTime> until = {});

// The reply to a question: false if it was refused.
bool says_yes(const Result& reply);

// For a session that listens: its server notices within a minute that its client has
// vanished, and does not end it for being idle. `version`: of the server.
Statement for_listeners(std::string_view version);

}  // namespace dlock::postgres
