// dlock renew, release, check and fence: the verbs for a lock that a script has acquired.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"
#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

ExitStatus renew_verb(const Invocation& invocation);
ExitStatus release_verb(const Invocation& invocation);
ExitStatus check_verb(const Invocation& invocation);
ExitStatus fence_verb(const Invocation& invocation);

// The time that is certainly left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// The number of free slots of `lock`, for JSON output. Null if the store does not report
// it: the verb has already succeeded by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

}  // namespace dlock
