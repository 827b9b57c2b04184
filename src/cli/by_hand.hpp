// dlock renew, release, check and fence: what a script does with a lock it was granted.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"
#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

ExitStatus renew_verb(const Invocation& invocation);
ExitStatus release_verb(const Invocation& invocation);
ExitStatus check_verb(const Invocation& invocation);
ExitStatus fence_verb(const Invocation& invocation);

// What surely is left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// How many more could hold `lock`, for programs; null if the store does not say, since
// what matters is done by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

}  // namespace dlock
