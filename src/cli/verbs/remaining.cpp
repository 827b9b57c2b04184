#include "cli/verbs/remaining.hpp"

#include <algorithm>
#include <chrono>

#include "util/failure.hpp"

namespace dlock {

milliseconds left_of(milliseconds span, Clock::time_point start) {
  const auto passed = std::chrono::ceil<milliseconds>(Clock::now() - start);
  return std::max(span - passed, milliseconds(0));
}

asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup) {
  try {
    const auto info = co_await store.inspector().inspect(lock, wakeup);
    co_return Json(info.free);
  } catch (const Failure&) {
    co_return Json(nullptr);
  }
}

}  // namespace dlock
