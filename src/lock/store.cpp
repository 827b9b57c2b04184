#include "lock/store.hpp"

namespace dlock {

asio::awaitable<void> Store::watch(const Watched&, EventSink& sink, Wakeup& wakeup) {
  sink.began();
  while (!wakeup.gives_up()) co_await wakeup.wait_until(Clock::time_point::max());
}

}  // namespace dlock
