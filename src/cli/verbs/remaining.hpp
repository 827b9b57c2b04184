#pragma once

#include <boost/asio/awaitable.hpp>

#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"
#include "util/json.hpp"

namespace dlock {

// The time that is certainly left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// The number of free slots of `lock`, for JSON output. Null if the store does not report
// it: the verb has already succeeded by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

}  // namespace dlock
